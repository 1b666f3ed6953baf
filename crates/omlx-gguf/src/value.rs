//! Metadata values: one Rust value for each type the format has.

/// A metadata value.
#[expect(missing_docs, reason = "the names are the format's own types")]
#[derive(Debug, Clone, PartialEq)]
pub enum Value {
    U8(u8),
    I8(i8),
    U16(u16),
    I16(i16),
    U32(u32),
    I32(i32),
    F32(f32),
    Bool(bool),
    String(String),
    Array(Array),
    U64(u64),
    I64(i64),
    F64(f64),
}

/// A metadata array; all its entries have one type.
#[expect(missing_docs, reason = "the names are the format's own types")]
#[derive(Debug, Clone, PartialEq)]
pub enum Array {
    U8(Vec<u8>),
    I8(Vec<i8>),
    U16(Vec<u16>),
    I16(Vec<i16>),
    U32(Vec<u32>),
    I32(Vec<i32>),
    F32(Vec<f32>),
    Bool(Vec<bool>),
    Strings(Strings),
    U64(Vec<u64>),
    I64(Vec<i64>),
    F64(Vec<f64>),
}

/// The type of a value or of an array's entries.
#[expect(missing_docs, reason = "the names are the format's own types")]
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum ValueType {
    U8,
    I8,
    U16,
    I16,
    U32,
    I32,
    F32,
    Bool,
    String,
    Array,
    U64,
    I64,
    F64,
}

impl ValueType {
    /// In the order of their numbers in a file.
    const ALL: [Self; 13] = [
        Self::U8,
        Self::I8,
        Self::U16,
        Self::I16,
        Self::U32,
        Self::I32,
        Self::F32,
        Self::Bool,
        Self::String,
        Self::Array,
        Self::U64,
        Self::I64,
        Self::F64,
    ];

    /// The type with this number in a file.
    pub(crate) fn from_id(id: u32) -> Option<Self> {
        Self::ALL.get(usize::try_from(id).ok()?).copied()
    }

    /// Its name in messages.
    pub fn name(self) -> &'static str {
        match self {
            Self::U8 => "u8",
            Self::I8 => "i8",
            Self::U16 => "u16",
            Self::I16 => "i16",
            Self::U32 => "u32",
            Self::I32 => "i32",
            Self::F32 => "f32",
            Self::Bool => "bool",
            Self::String => "string",
            Self::Array => "array",
            Self::U64 => "u64",
            Self::I64 => "i64",
            Self::F64 => "f64",
        }
    }
}

impl Value {
    /// The type of this value.
    pub fn kind(&self) -> ValueType {
        match self {
            Self::U8(_) => ValueType::U8,
            Self::I8(_) => ValueType::I8,
            Self::U16(_) => ValueType::U16,
            Self::I16(_) => ValueType::I16,
            Self::U32(_) => ValueType::U32,
            Self::I32(_) => ValueType::I32,
            Self::F32(_) => ValueType::F32,
            Self::Bool(_) => ValueType::Bool,
            Self::String(_) => ValueType::String,
            Self::Array(_) => ValueType::Array,
            Self::U64(_) => ValueType::U64,
            Self::I64(_) => ValueType::I64,
            Self::F64(_) => ValueType::F64,
        }
    }

    /// The number, if this is an integer of any width; every integer of the format fits.
    pub(crate) fn integer(&self) -> Option<i128> {
        Some(match *self {
            Self::U8(n) => n.into(),
            Self::I8(n) => n.into(),
            Self::U16(n) => n.into(),
            Self::I16(n) => n.into(),
            Self::U32(n) => n.into(),
            Self::I32(n) => n.into(),
            Self::U64(n) => n.into(),
            Self::I64(n) => n.into(),
            _ => return None,
        })
    }
}

impl Array {
    /// The type of the entries.
    pub fn kind(&self) -> ValueType {
        match self {
            Self::U8(_) => ValueType::U8,
            Self::I8(_) => ValueType::I8,
            Self::U16(_) => ValueType::U16,
            Self::I16(_) => ValueType::I16,
            Self::U32(_) => ValueType::U32,
            Self::I32(_) => ValueType::I32,
            Self::F32(_) => ValueType::F32,
            Self::Bool(_) => ValueType::Bool,
            Self::Strings(_) => ValueType::String,
            Self::U64(_) => ValueType::U64,
            Self::I64(_) => ValueType::I64,
            Self::F64(_) => ValueType::F64,
        }
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        match self {
            Self::U8(v) => v.len(),
            Self::I8(v) => v.len(),
            Self::U16(v) => v.len(),
            Self::I16(v) => v.len(),
            Self::U32(v) => v.len(),
            Self::I32(v) => v.len(),
            Self::F32(v) => v.len(),
            Self::Bool(v) => v.len(),
            Self::Strings(v) => v.len(),
            Self::U64(v) => v.len(),
            Self::I64(v) => v.len(),
            Self::F64(v) => v.len(),
        }
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// The entries as integers, if they are integers of any width.
    pub(crate) fn integers(&self) -> Option<Vec<i128>> {
        fn wide<T: Copy + Into<i128>>(v: &[T]) -> Vec<i128> {
            v.iter().map(|n| (*n).into()).collect()
        }
        Some(match self {
            Self::U8(v) => wide(v),
            Self::I8(v) => wide(v),
            Self::U16(v) => wide(v),
            Self::I16(v) => wide(v),
            Self::U32(v) => wide(v),
            Self::I32(v) => wide(v),
            Self::U64(v) => wide(v),
            Self::I64(v) => wide(v),
            _ => return None,
        })
    }
}

/// An array of texts, all in one buffer: a vocabulary has a quarter of a million of them.
///
/// Bytes that are not UTF-8 were replaced by U+FFFD; [`is_lossy`](Self::is_lossy) says where.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
pub struct Strings {
    text: String,
    /// End of each entry in `text`.
    ends: Vec<usize>,
    /// Numbers of the entries that were repaired, ascending.
    lossy: Vec<usize>,
}

impl Strings {
    /// An empty array with room for `count` entries.
    pub(crate) fn with_capacity(count: usize) -> Self {
        Self { ends: Vec::with_capacity(count), ..Self::default() }
    }

    /// Adds an entry.
    pub(crate) fn push(&mut self, bytes: &[u8]) {
        let entry = String::from_utf8_lossy(bytes);
        if matches!(entry, std::borrow::Cow::Owned(_)) {
            self.lossy.push(self.ends.len());
        }
        self.text.push_str(&entry);
        self.ends.push(self.text.len());
    }

    /// Number of entries.
    pub fn len(&self) -> usize {
        self.ends.len()
    }

    /// Whether there are no entries.
    pub fn is_empty(&self) -> bool {
        self.ends.is_empty()
    }

    /// The n-th entry.
    pub fn get(&self, n: usize) -> Option<&str> {
        let end = *self.ends.get(n)?;
        let start = if n == 0 { 0 } else { self.ends[n - 1] };
        Some(&self.text[start..end])
    }

    /// All entries in order.
    pub fn iter(&self) -> impl ExactSizeIterator<Item = &str> + '_ {
        (0..self.len()).map(|n| self.get(n).unwrap_or_default())
    }

    /// Whether the n-th entry had bytes that are not UTF-8.
    pub fn is_lossy(&self, n: usize) -> bool {
        self.lossy.binary_search(&n).is_ok()
    }
}
