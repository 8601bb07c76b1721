//! Tables as kubectl prints them: no lines, two spaces between columns, nothing behind the last word.

use comfy_table::{CellAlignment, Table, presets};

pub fn plain() -> Table {
    let mut table = Table::new();
    table.load_style(presets::NOTHING);
    table
}

/// A table with a header; the columns of these numbers, from 0, are aligned to the right.
pub fn columns<const N: usize>(header: [&str; N], right: &[usize]) -> Table {
    let mut table = plain();
    table.set_header(header);
    pad(&mut table);
    for column in right {
        if let Some(column) = table.column_mut(*column) {
            column.set_cell_alignment(CellAlignment::Right);
        }
    }
    table
}

/// Two spaces between columns and none before the first.
pub fn pad(table: &mut Table) {
    table.column_iter_mut().for_each(|column| {
        column.set_padding((0, 2));
    });
}

/// Without a line break at the end.
pub fn trimmed(table: &Table) -> String {
    table.lines().map(|line| line.trim_end().to_owned()).collect::<Vec<_>>().join("\n")
}
