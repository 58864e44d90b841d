//! Small pieces of text: tables, times, sizes.

use jiff::Timestamp;
use jiff::tz::TimeZone;
use unicode_width::UnicodeWidthStr;

/// A text as it may reach a terminal: what would move the cursor, change colours or the window's title, or turn the
/// direction of reading stands as U+FFFD. Scripts, models and hubs write much of what is shown. Line breaks stay.
pub(super) fn harmless(text: &str) -> String {
    text.chars().map(|ch| if ch != '\n' && is_hostile(ch) { char::REPLACEMENT_CHARACTER } else { ch }).collect()
}

/// The same on one line, so that no text can pose as the next one.
pub(super) fn one_line(text: &str) -> String {
    harmless(text).replace(['\n', '\t'], " ")
}

/// JSON text that means the same and is harmless in a terminal.
pub(super) fn harmless_json(json: &str) -> String {
    let mut safe = String::with_capacity(json.len());
    for ch in json.chars() {
        // Below U+0080 JSON has such characters only between its values.
        if !ch.is_ascii() && is_hostile(ch) || ch == '\u{7f}' {
            safe.push_str(&format!("\\u{:04x}", u32::from(ch)));
        } else {
            safe.push(ch);
        }
    }
    safe
}

/// Control characters, the eight-bit ones too, and those that reorder what stands around them.
fn is_hostile(ch: char) -> bool {
    let reorders =
        matches!(ch, '\u{61c}' | '\u{200e}' | '\u{200f}' | '\u{202a}'..='\u{202e}' | '\u{2066}'..='\u{2069}');
    ch.is_control() && ch != '\t' || reorders || matches!(ch, '\u{2028}' | '\u{2029}')
}

/// Rows in columns as wide as they must be, two spaces between them.
pub(super) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let rows: Vec<Vec<String>> = rows.iter().map(|row| row.iter().map(|cell| one_line(cell)).collect()).collect();
    let mut widths: Vec<usize> = head.iter().map(|cell| cell.width()).collect();
    for row in &rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.width());
        }
    }
    let line = |cells: &[String]| {
        let pad =
            |(cell, width): (&String, &usize)| format!("{cell}{}", " ".repeat(width.saturating_sub(cell.width())));
        cells.iter().zip(&widths).map(pad).collect::<Vec<_>>().join("  ").trim_end().to_owned()
    };
    let head: Vec<String> = head.iter().map(|&cell| cell.to_owned()).collect();
    std::iter::once(line(&head)).chain(rows.iter().map(|row| line(row))).collect::<Vec<_>>().join("\n")
}

/// A time as the owner's clock on the wall shows it.
pub(super) fn local_time(ms: i64) -> String {
    let Ok(time) = Timestamp::from_millisecond(ms) else { return "?".to_owned() };
    time.to_zoned_datetime(TimeZone::system()).strftime("%Y-%m-%d %H:%M:%S").to_string()
}

/// A span as people say it: `35 ms`, `2.4 s`, `3 min 20 s`.
pub(super) fn span(ms: i64) -> String {
    let ms = ms.max(0);
    match ms {
        0..1_000 => format!("{ms} ms"),
        1_000..60_000 => format!("{}.{} s", ms / 1_000, ms % 1_000 / 100),
        60_000..3_600_000 => format!("{} min {} s", ms / 60_000, ms % 60_000 / 1_000),
        _ => format!("{} h {} min", ms / 3_600_000, ms % 3_600_000 / 60_000),
    }
}

/// The beginning of a text, on one line.
pub(super) fn shortened(text: &str, most: usize) -> String {
    let clean: String = text.chars().map(|ch| if is_hostile(ch) || ch.is_control() { ' ' } else { ch }).collect();
    if clean.chars().count() <= most {
        return clean;
    }
    clean.chars().take(most.saturating_sub(1)).chain(['…']).collect()
}

/// A count with its noun.
pub(super) fn counted(count: usize, one: &str, many: &str) -> String {
    if count == 1 { format!("1 {one}") } else { format!("{count} {many}") }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up_and_nothing_trails() {
        let rows = vec![vec!["a".to_owned(), "b".to_owned()], vec!["äöü".to_owned(), String::new()]];
        assert_eq!(table(&["x", "yy"], &rows), "x    yy\na    b\näöü");
        let wide = vec![vec!["\u{8a9e}\u{1f980}".to_owned(), "b".to_owned()]];
        assert_eq!(table(&["x", "yy"], &wide), "x     yy\n\u{8a9e}\u{1f980}  b");
    }

    #[test]
    fn spans_read_as_people_say_them() {
        let said: Vec<String> = [-5, 35, 2_450, 200_000, 7_320_000].map(span).to_vec();
        assert_eq!(said, ["0 ms", "35 ms", "2.4 s", "3 min 20 s", "2 h 2 min"]);
    }

    #[test]
    fn no_text_can_command_a_terminal_or_pose_as_another() {
        let hostile = "a\u{1b}]0;title\u{7}b\u{9b}2Jc\u{202e}d\r\nfake\tend";
        assert_eq!(harmless(hostile), "a\u{fffd}]0;title\u{fffd}b\u{fffd}2Jc\u{fffd}d\u{fffd}\nfake\tend");
        assert_eq!(table(&["x"], &[vec![hostile.to_owned()]]).lines().count(), 2);
        assert!(!shortened(hostile, 100).chars().any(|ch| is_hostile(ch) || ch.is_control()));
        let value = serde_json::json!({"k\u{9b}": hostile, "n": [1, "é😀"]});
        let json = harmless_json(&serde_json::to_string_pretty(&value).unwrap());
        assert!(!json.chars().any(|ch| ch != '\n' && is_hostile(ch)), "{json}");
        assert_eq!(serde_json::from_str::<serde_json::Value>(&json).unwrap(), value);
    }

    #[test]
    fn a_shortened_text_cannot_move_the_cursor() {
        assert_eq!(shortened("a\u{1b}[2Jb\nc", 20), "a [2Jb c");
        assert_eq!(shortened("abcdef", 4), "abc…");
    }
}
