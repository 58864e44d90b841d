//! What an assistant that watches a run may see of it, folded from the engine's events.

use fleet::Event;
use protocol::CheckRequest;

/// Progress texts are cut to this many characters on the way out.
const MAX_TEXT: usize = 200;

/// Takes one event into what the next check will tell.
pub fn fold(progress: &mut CheckRequest, event: &Event) {
    match event {
        Event::PhaseStarted { title } => {
            progress.phase = Some(shortened(title));
            (progress.message, progress.done, progress.total) = (None, None, None);
        }
        Event::Progress { done, total, message } => {
            progress.done = whole(*done);
            progress.total = whole(*total);
            progress.message = message.as_deref().map(shortened);
        }
        Event::AgentFinished { tokens, .. } => {
            progress.total_tokens = Some(progress.total_tokens.unwrap_or(0).saturating_add(tokens.total()));
        }
        _ => {}
    }
}

/// Scripts count in JavaScript's numbers; the wire counts whole units. Casting saturates.
#[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "negative and huge counts saturate")]
fn whole(number: f64) -> Option<u64> {
    number.is_finite().then_some(number.round() as u64)
}

fn shortened(text: &str) -> String {
    text.chars().take(MAX_TEXT).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_new_phase_forgets_the_counts_of_the_last_one() {
        let mut progress = CheckRequest::default();
        fold(&mut progress, &Event::PhaseStarted { title: "Read".to_owned() });
        fold(&mut progress, &Event::Progress { done: 2.0, total: 3.0, message: Some("a.txt".to_owned()) });
        assert_eq!((progress.done, progress.total, progress.message.as_deref()), (Some(2), Some(3), Some("a.txt")));
        fold(&mut progress, &Event::PhaseStarted { title: "Write".to_owned() });
        assert_eq!(progress, CheckRequest { phase: Some("Write".to_owned()), ..CheckRequest::default() });
    }

    #[test]
    fn numbers_that_count_nothing_are_left_out() {
        let mut progress = CheckRequest::default();
        fold(&mut progress, &Event::Progress { done: f64::NAN, total: f64::INFINITY, message: None });
        assert_eq!((progress.done, progress.total), (None, None));
        fold(&mut progress, &Event::Progress { done: -1.0, total: 1e30, message: None });
        assert_eq!((progress.done, progress.total), (Some(0), Some(u64::MAX)));
    }
}
