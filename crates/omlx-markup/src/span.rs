//! Where a JSON value ends, found while it comes in. Nothing else about it is checked: what a model wrote is passed on as it wrote it.

/// Where a character stands.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum At {
    /// In the value, which goes on.
    Inside,
    /// In the value, which ends with it.
    Last,
    /// Behind the value.
    Beyond,
}

/// A value that is being read.
#[derive(Debug, Default)]
pub(crate) struct Span {
    depth: usize,
    string: bool,
    escaped: bool,
}

impl Span {
    /// Takes the next character of the value. Its first one is no blank.
    pub(crate) fn take(&mut self, c: char) -> At {
        if self.string {
            match c {
                _ if self.escaped => self.escaped = false,
                '\\' => self.escaped = true,
                '"' => {
                    self.string = false;
                    if self.depth == 0 {
                        return At::Last;
                    }
                }
                _ => {}
            }
            return At::Inside;
        }
        match c {
            '"' => self.string = true,
            '{' | '[' => self.depth += 1,
            '}' | ']' => {
                if self.depth < 2 {
                    return if self.depth == 0 { At::Beyond } else { At::Last };
                }
                self.depth -= 1;
            }
            ',' if self.depth == 0 => return At::Beyond,
            c if self.depth == 0 && c.is_whitespace() => return At::Beyond,
            _ => {}
        }
        At::Inside
    }

    /// A character of a string that JSON wants escaped and models write plainly.
    pub(crate) fn mended(&self, c: char) -> Option<String> {
        (self.string && c < ' ').then(|| escaped(c))
    }
}

/// A character as it stands inside a JSON string.
pub(crate) fn escaped(c: char) -> String {
    match c {
        '"' => "\\\"".to_owned(),
        '\\' => "\\\\".to_owned(),
        '\n' => "\\n".to_owned(),
        '\r' => "\\r".to_owned(),
        '\t' => "\\t".to_owned(),
        c if c < ' ' => format!("\\u{:04x}", u32::from(c)),
        c => c.to_string(),
    }
}

/// A text as a JSON string.
pub(crate) fn quoted(text: &str) -> String {
    serde_json::Value::from(text).to_string()
}
