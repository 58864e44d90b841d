//! Small pieces of text: tables, times, sizes.

use jiff::Timestamp;
use jiff::tz::TimeZone;

/// Rows in columns as wide as they must be, two spaces between them.
pub(super) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    let mut widths: Vec<usize> = head.iter().map(|cell| cell.chars().count()).collect();
    for row in rows {
        for (width, cell) in widths.iter_mut().zip(row) {
            *width = (*width).max(cell.chars().count());
        }
    }
    let line = |cells: &[String]| {
        let padded: Vec<String> = cells.iter().zip(&widths).map(|(cell, width)| format!("{cell:<width$}")).collect();
        padded.join("  ").trim_end().to_owned()
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
    let clean: String = text.chars().map(|ch| if ch.is_control() { ' ' } else { ch }).collect();
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
    }

    #[test]
    fn spans_read_as_people_say_them() {
        let said: Vec<String> = [-5, 35, 2_450, 200_000, 7_320_000].map(span).to_vec();
        assert_eq!(said, ["0 ms", "35 ms", "2.4 s", "3 min 20 s", "2 h 2 min"]);
    }

    #[test]
    fn a_shortened_text_cannot_move_the_cursor() {
        assert_eq!(shortened("a\u{1b}[2Jb\nc", 20), "a [2Jb c");
        assert_eq!(shortened("abcdef", 4), "abc…");
    }
}
