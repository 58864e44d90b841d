//! What an experiment prints: our figure beside the published one, and why they differ where they do.

use std::fmt;

/// One line of a table.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Row {
    /// What was measured.
    pub what: String,
    /// The published figure; `–` where none was published.
    pub published: String,
    /// The figure here.
    pub here: String,
}

/// The outcome of one experiment. Displayed as Markdown whose columns also line up as plain text.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Table {
    /// What was tried, and how often.
    pub title: String,
    /// The figures.
    pub rows: Vec<Row>,
    /// What a reader of the figures must know.
    pub notes: Vec<String>,
}

impl Table {
    pub(crate) fn new(title: impl Into<String>) -> Self {
        Self { title: title.into(), rows: Vec::new(), notes: Vec::new() }
    }

    pub(crate) fn row(
        mut self,
        what: impl Into<String>,
        published: impl Into<String>,
        here: impl Into<String>,
    ) -> Self {
        self.rows.push(Row { what: what.into(), published: published.into(), here: here.into() });
        self
    }

    pub(crate) fn note(mut self, note: impl Into<String>) -> Self {
        self.notes.push(note.into());
        self
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let head = ["", "published", "here"];
        let lines = || self.rows.iter().map(|row| [row.what.as_str(), &row.published, &row.here]);
        let width =
            |column: usize| lines().chain([head]).map(|cells| cells[column].chars().count()).max().unwrap_or_default();
        let widths = [width(0), width(1), width(2)];
        let rule = widths.map(|width| "-".repeat(width));

        writeln!(f, "## {}\n", self.title)?;
        for [what, published, here] in [head, rule.each_ref().map(String::as_str)].into_iter().chain(lines()) {
            let [first, second, third] = widths;
            writeln!(f, "| {what:first$} | {published:second$} | {here:third$} |")?;
        }
        if !self.notes.is_empty() {
            writeln!(f)?;
        }
        self.notes.iter().try_for_each(|note| writeln!(f, "- {note}"))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let table = Table::new("tea, n = 2").row("café", "–", "12 cups").row("kitchen", "3", "4").note("Not to scale.");
        insta::assert_snapshot!(table, @r"
        ## tea, n = 2

        |         | published | here    |
        | ------- | --------- | ------- |
        | café    | –         | 12 cups |
        | kitchen | 3         | 4       |

        - Not to scale.
        ");
    }
}
