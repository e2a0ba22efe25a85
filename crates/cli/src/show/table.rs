//! A plain table: columns as wide as their widest cell, the last one free.

use std::fmt;

/// A table that is filled row by row.
#[derive(Debug)]
pub struct Table {
    rows: Vec<Vec<String>>,
}

impl Table {
    /// A table with these titles.
    pub fn new<'a>(titles: impl IntoIterator<Item = &'a str>) -> Self {
        Self { rows: vec![titles.into_iter().map(str::to_owned).collect()] }
    }

    /// One more row. Line breaks become spaces: a row is one line.
    pub fn row(&mut self, cells: impl IntoIterator<Item = String>) {
        self.rows.push(cells.into_iter().map(|cell| cell.replace(['\n', '\r', '\t'], " ")).collect());
    }
}

impl fmt::Display for Table {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let columns = self.rows.first().map_or(0, Vec::len);
        let width = |column: usize| self.rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count()).max().unwrap_or(0);
        let widths: Vec<usize> = (0..columns).map(width).collect();
        for row in &self.rows {
            let mut line = String::new();
            for (cell, width) in row.iter().zip(&widths) {
                line += &format!("{cell:<width$}  ");
            }
            writeln!(f, "{}", line.trim_end())?;
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn columns_line_up() {
        let mut table = Table::new(["A", "B"]);
        table.row(["long".into(), "x\ny".into()]);
        assert_eq!(table.to_string(), "A     B\nlong  x y\n");
    }
}
