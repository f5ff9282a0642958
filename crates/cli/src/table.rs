//! Tables and ages, as kubectl prints them.

use crate::text::visible;

/// Columns that grow with what is in them, so that rows that come later still stand below each other.
#[derive(Debug)]
pub(crate) struct Table {
    head: Vec<String>,
    widths: Vec<usize>,
}

impl Table {
    pub(crate) fn new(head: &[&str]) -> Self {
        Self {
            head: head.iter().map(|&cell| cell.to_owned()).collect(),
            widths: head.iter().map(|cell| cell.chars().count()).collect(),
        }
    }

    /// Returns rows as lines, after the head when it is wanted. What somebody else wrote cannot move the cursor; `paint` gets the row, the column and the text of a cell
    /// and returns it with colours.
    pub(crate) fn lines(
        &mut self,
        rows: &[Vec<String>],
        with_head: bool,
        paint: impl Fn(usize, usize, &str) -> String,
    ) -> String {
        let rows: Vec<Vec<String>> = rows
            .iter()
            .map(|row| row.iter().map(|cell| visible(cell)).collect())
            .collect();
        for row in &rows {
            for (width, cell) in self.widths.iter_mut().zip(row) {
                *width = cell.chars().count().max(*width);
            }
        }
        let mut text = String::new();
        if with_head {
            self.line(&self.head, |_, cell| cell.to_owned(), &mut text);
        }
        for (place, row) in rows.iter().enumerate() {
            self.line(row, |column, cell| paint(place, column, cell), &mut text);
        }
        text
    }

    fn line(&self, cells: &[String], paint: impl Fn(usize, &str) -> String, text: &mut String) {
        let last = cells.iter().rposition(|cell| !cell.is_empty());
        for (column, (cell, width)) in cells.iter().zip(&self.widths).enumerate() {
            text.push_str(&paint(column, cell));
            if last.is_none_or(|last| column >= last) {
                break;
            }
            let gap = width - cell.chars().count() + GAP;
            text.extend(std::iter::repeat_n(' ', gap));
        }
        text.push('\n');
    }
}

const GAP: usize = 3;

/// A whole table without colours.
pub(crate) fn table(head: &[&str], rows: &[Vec<String>]) -> String {
    Table::new(head).lines(rows, true, |_, _, cell| cell.to_owned())
}

/// A time for people: two units at most, and one where the second says little.
pub(crate) fn age(seconds: i64) -> String {
    let seconds = seconds.max(0);
    let (minutes, hours, days) = (seconds / 60, seconds / 3_600, seconds / 86_400);
    let two = |first: i64, unit: &str, second: i64, other: &str| {
        if second == 0 {
            format!("{first}{unit}")
        } else {
            format!("{first}{unit}{second}{other}")
        }
    };
    match () {
        () if seconds < 120 => format!("{seconds}s"),
        () if minutes < 10 => two(minutes, "m", seconds % 60, "s"),
        () if minutes < 180 => format!("{minutes}m"),
        () if hours < 8 => two(hours, "h", minutes % 60, "m"),
        () if hours < 48 => format!("{hours}h"),
        () if days < 8 => two(days, "d", hours % 24, "h"),
        () if days < 730 => format!("{days}d"),
        () if days < 2_920 => two(days / 365, "y", days % 365, "d"),
        () => format!("{}y", days / 365),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_are_as_wide_as_what_is_in_them() {
        let row = |cells: [&str; 2]| cells.map(str::to_owned).to_vec();
        assert_eq!(
            table(&["A", "LONG"], &[row(["x", "1"]), row(["a\u{1b}", ""])]),
            "A         LONG\nx         1\na\\u001b\n"
        );
        assert_eq!(table(&["A", "B"], &[]), "A   B\n");
        let mut later = Table::new(&["A", "B"]);
        let plain = |_: usize, _: usize, cell: &str| cell.to_owned();
        later.lines(&[row(["wide", "1"])], true, plain);
        assert_eq!(later.lines(&[row(["x", "1"])], false, plain), "x      1\n");
        let loud = |_: usize, column: usize, cell: &str| {
            if column == 0 {
                format!("<{cell}>")
            } else {
                cell.to_owned()
            }
        };
        assert_eq!(later.lines(&[row(["x", "1"])], false, loud), "<x>      1\n");
    }

    #[test]
    fn ages_are_told_as_kubectl_tells_them() {
        for (seconds, text) in [
            (-5, "0s"),
            (0, "0s"),
            (119, "119s"),
            (120, "2m"),
            (150, "2m30s"),
            (3_600, "60m"),
            (10_800, "3h"),
            (12_000, "3h20m"),
            (100_000, "27h"),
            (200_000, "2d7h"),
            (900_000, "10d"),
            (70_000_000, "2y80d"),
            (300_000_000, "9y"),
        ] {
            assert_eq!(age(seconds), text, "{seconds}");
        }
    }
}
