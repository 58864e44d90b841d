//! The caps, to the unit.

use proptest::prelude::*;
use serde_json::json;

use super::*;
use crate::js_length;
use crate::testing::{any_text, any_value, sent_length};

fn report(result: impl Into<Value>) -> Completion {
    Completion {
        execution_id: Some(ExecutionId::new()),
        status: CompletionStatus::Completed,
        result: Some(result.into()),
        message: None,
        total_tokens: Some(1_234),
        reported_cost: Some(0.25),
        agent_failures: 0,
        result_truncated: false,
    }
}

/// `units` UTF-16 units of text made of `ch`, the odd one of ASCII.
fn text(ch: &str, units: usize) -> String {
    let width = ch.encode_utf16().count();
    ch.repeat(units / width) + &"x".repeat(units % width)
}

#[test]
fn a_report_of_exactly_the_cap_goes_whole_and_one_more_unit_goes_as_its_id_and_status() {
    let room = MAX_REPORT_UNITS - js_length(&report(""));
    assert!((99_750..99_950).contains(&room), "the largest result is about 99,900 characters, not {room}");
    for ch in ["a", "語", "😀", "e\u{301}"] {
        let fits = report(text(ch, room));
        assert_eq!(sent_length(&fits), 100_000);
        assert_eq!(fits.clone().capped(), fits, "{ch}");

        let over = report(text(ch, room + 1));
        assert_eq!(sent_length(&over), 100_001);
        let id = over.execution_id.unwrap();
        assert_eq!(
            serde_json::to_string(&over.capped()).unwrap(),
            format!(r#"{{"execution_id":"{id}","status":"completed","result_truncated":true}}"#),
            "{ch}"
        );
    }
}

#[test]
fn what_counts_is_the_text_in_javascript_and_not_ours() {
    // serde_json writes `1.0,`, JavaScript `1,`: with ours this would be over the cap.
    let fits = report(vec![1.0; 49_900]);
    assert!(serde_json::to_string(&fits).unwrap().len() > 190_000);
    assert!(!fits.capped().result_truncated);
    // Escapes count: 20,000 control characters are 120,000 units.
    assert!(report("\u{1}".repeat(20_000)).capped().result_truncated);
}

#[test]
fn a_message_keeps_2000_units_and_never_half_a_pair() {
    for ch in ["a", "語", "😀"] {
        let fits = text(ch, 2_000);
        assert_eq!(cap_message(&fits), fits);
        assert_eq!(cap_message(&format!("{fits}!")), fits);
    }
    let before_edge = "x".repeat(1_999);
    assert_eq!(cap_message(&format!("{before_edge}😀")), before_edge);
    assert_eq!(cap_message(&format!("{before_edge}語")).encode_utf16().count(), 2_000);
    assert_eq!(cap_message(""), "");
}

#[test]
fn an_end_without_a_run_says_why() {
    let end = Completion::without_run(CompletionStatus::Cancelled, &"語".repeat(5_000));
    assert_eq!(end.message.as_ref().unwrap().encode_utf16().count(), 2_000);
    assert_eq!(end.clone().capped(), end);
    let end = Completion::without_run(CompletionStatus::Failed, "no such Graph");
    assert_eq!(
        serde_json::to_value(&end).unwrap(),
        json!({"execution_id": null, "status": "failed", "message": "no such Graph"})
    );
}

#[test]
fn a_report_of_another_version_is_read() {
    let id = ExecutionId::new();
    let minimal = json!({"execution_id": id, "status": "completed", "result_truncated": true, "new": [1]});
    let read: Completion = serde_json::from_value(minimal).unwrap();
    assert_eq!((read.execution_id, read.result_truncated, read.result), (Some(id), true, None));
}

fn any_completion() -> impl Strategy<Value = Completion> {
    let status = proptest::sample::select(vec![
        CompletionStatus::Completed,
        CompletionStatus::Failed,
        CompletionStatus::Cancelled,
    ]);
    // Texts of a unit's width, of lengths around both caps.
    let long = (
        proptest::sample::select(vec!["a", "語", "😀", "\n", "\u{1}"]),
        prop_oneof![0..3_000_usize, 99_000..101_000_usize],
    )
        .prop_map(|(ch, units)| text(ch, units));
    let message = proptest::option::of(prop_oneof![any_text(), long.clone()]);
    let result = proptest::option::of((any_value(), long).prop_map(|(value, text)| json!([value, text])));
    (status, result, message, any::<Option<u64>>(), proptest::option::of(0.0..1e6_f64), 0..3_u64).prop_map(
        |(status, result, message, total_tokens, reported_cost, agent_failures)| Completion {
            status,
            result,
            message,
            total_tokens,
            reported_cost,
            agent_failures,
            ..report(Value::Null)
        },
    )
}

proptest! {
    #![proptest_config(ProptestConfig { cases: 128, failure_persistence: None, ..ProptestConfig::default() })]

    #[test]
    fn a_capped_report_is_within_the_cap_and_whole_or_nothing(original in any_completion()) {
        let capped = original.clone().capped();
        prop_assert!(sent_length(&capped) <= MAX_REPORT_UNITS);
        prop_assert_eq!(capped.clone().capped(), capped.clone());

        let message = original.message.as_deref().map(|text| cap_message(text).to_owned());
        let whole = Completion { message, ..original };
        let is_too_long = sent_length(&whole) > MAX_REPORT_UNITS;
        let expected = if is_too_long {
            json!({"execution_id": whole.execution_id, "status": whole.status, "result_truncated": true})
        } else {
            serde_json::to_value(&whole).unwrap()
        };
        prop_assert_eq!(serde_json::to_value(&capped).unwrap(), expected);
    }

    #[test]
    fn a_cut_message_is_the_longest_beginning_that_fits(text in any_text(), times in 0..400_usize) {
        let text = text.repeat(times);
        let kept = cap_message(&text);
        prop_assert!(text.starts_with(kept));
        let units = kept.encode_utf16().count();
        prop_assert!(units <= MAX_MESSAGE_UNITS);
        if let Some(next) = text[kept.len()..].chars().next() {
            prop_assert!(units + next.len_utf16() > MAX_MESSAGE_UNITS);
        }
    }
}
