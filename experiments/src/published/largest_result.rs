//! The longest text that a run can return and its assistant can read (SPEC 1.7).

use std::time::Duration;

use protocol::{CommandStatus, MAX_REPORT_UNITS};
use serde_json::Value;

use crate::failure::must;
use crate::stats::count;
use crate::world::{Asked, Setup, Text, World};
use crate::{Failure, Plan, Table};

/// Characters of one, three and four bytes, and one that JSON escapes; the published figures first.
const ALPHABETS: [(&str, char, &str); 4] = [
    ("ASCII", 'a', "about 99,900 chars"),
    ("CJK", '語', "about 99,900 chars, 300 kB"),
    ("emoji, two UTF-16 units each", '🦀', "–"),
    ("quotes, escaped in JSON", '"', "–"),
];

pub(super) async fn table(_: Plan) -> Result<Table, Failure> {
    let world = World::new(Setup::default()).await?;
    let mut table = Table::new("Largest result text that fits");
    for (name, of, published) in ALPHABETS {
        let chars = longest(&world, of).await?;
        let here = format!("{} chars, {} bytes", count(chars), count(chars * of.len_utf8()));
        table = table.row(name, published, here);
    }
    Ok(table.note(format!(
        "The whole report has {} characters at most, counted as JavaScript's `JSON.stringify(x).length` counts. One \
         character more and the assistant is told `result_truncated`, never a cut text.",
        count(MAX_REPORT_UNITS)
    )))
}

/// Halves the range between a text that fits and one that does not.
async fn longest(world: &World, of: char) -> Result<usize, Failure> {
    let (mut fits, mut fails) = (0, MAX_REPORT_UNITS);
    while fails - fits > 1 {
        let middle = fits.midpoint(fails);
        if arrives(world, Text { of, times: middle }).await? { fits = middle } else { fails = middle }
    }
    Ok(fits)
}

/// Runs a Graph that returns the text. What arrives must be all of it.
async fn arrives(world: &World, text: Text) -> Result<bool, Failure> {
    let whole = Value::from(text.of.to_string().repeat(text.times));
    let key = format!("text-{}-{}", u32::from(text.of), text.times);
    let command = world.assistant.run(&key, &Asked::answering(Duration::from_secs(5), text)).await?;
    let seen = world.assistant.wait_for_end(&command).await?;
    must(seen.status == CommandStatus::Completed, || format!("{seen:?}"))?;
    match seen.result {
        Some(result) => must(result == whole && !seen.result_truncated, || "a result was changed".to_owned())?,
        None => {
            must(seen.result_truncated, || "a result is missing".to_owned())?;
            return Ok(false);
        }
    }
    Ok(true)
}
