//! Colours that say again what the words say: nothing is told by a colour alone.

use anstyle::{AnsiColor, Style};

/// Paints, or does not.
#[derive(Clone, Copy, Debug)]
pub struct Ink(pub bool);

pub const BOLD: Style = Style::new().bold();
pub const DIM: Style = Style::new().dimmed();
pub const RED: Style = AnsiColor::Red.on_default();
pub const GREEN: Style = AnsiColor::Green.on_default();
pub const YELLOW: Style = AnsiColor::Yellow.on_default();
pub const CYAN: Style = AnsiColor::Cyan.on_default();

impl Ink {
    pub fn paint(self, style: Style, text: &str) -> String {
        if self.0 && !text.is_empty() { format!("{style}{text}{style:#}") } else { text.to_string() }
    }
}
