//! Tensor names to tensors: one door before safetensors folders and GGUF files.
//!
//! A model asks for parts, `Part::Query` of layer 3, and says which shape the config promises; what the file calls it, how
//! it is stored and how its rows are ordered is settled here. Weights keep the precision they are stored in. Every tensor
//! of the file must be asked for: one left over means that the model is not the one the config describes.

mod affine;
mod blocks;
mod export;
mod folder;
mod gguf;
mod header;
mod map;
mod mxfp4;

use std::collections::BTreeSet;
use std::path::Path;
use std::sync::Arc;

use candle_core::{Device, Tensor};
use omlx_ops::Linear;

pub use export::Export;
pub use folder::Folder;
pub use gguf::GgufFile;

use crate::arch::Arch;
use crate::config::{self, Config};
use crate::{Error, Result, Warning};

/// What a tensor is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[expect(missing_docs, reason = "the names say it")]
pub enum Part {
    Embed,
    LastNorm,
    Head,
    BeforeAttn,
    AfterAttn,
    BeforeFfn,
    AfterFfn,
    Query,
    Key,
    Value,
    /// The three above in one tensor, one under another.
    QueryKeyValue,
    Out,
    /// A row for each head.
    HeadGate,
    /// A number for each head.
    Sinks,
    QueryNorm,
    KeyNorm,
    Gate,
    Up,
    /// The two above in one tensor.
    GateUp,
    Down,
    Router,
    /// What is added to scores for choosing.
    RouterBias,
    ExpertGate,
    ExpertUp,
    /// The two above in one tensor.
    ExpertGateUp,
    ExpertDown,
    SharedGate,
    SharedUp,
    /// The two above in one tensor.
    SharedGateUp,
    SharedDown,
}

impl Part {
    /// This part of a layer.
    pub fn of(self, layer: usize) -> At {
        At { layer: Some(layer), part: self, expert: None }
    }

    /// This part, which stands outside the layers.
    pub fn once(self) -> At {
        At { layer: None, part: self, expert: None }
    }

    fn is_experts(self) -> bool {
        matches!(self, Self::ExpertGate | Self::ExpertUp | Self::ExpertGateUp | Self::ExpertDown)
    }

    fn is_norm(self) -> bool {
        use Part::{AfterAttn, AfterFfn, BeforeAttn, BeforeFfn, KeyNorm, LastNorm, QueryNorm};
        matches!(self, LastNorm | BeforeAttn | AfterAttn | BeforeFfn | AfterFfn | QueryNorm | KeyNorm)
    }
}

/// A part and the layer it stands in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct At {
    layer: Option<usize>,
    part: Part,
    expert: Option<Nth>,
}

impl At {
    /// This part of one of so many experts.
    pub fn expert(self, index: usize, of: usize) -> Self {
        Self { expert: Some(Nth { index, of }), ..self }
    }
}

/// One of several equal slices of a tensor.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Nth {
    /// Which, from 0.
    pub index: usize,
    /// How many there are.
    pub of: usize,
}

impl Nth {
    /// The shape of the whole tensor, given a slice's.
    fn whole(nth: Option<Self>, slice: &[usize]) -> Vec<usize> {
        nth.map(|nth| nth.of).into_iter().chain(slice.iter().copied()).collect()
    }

    /// The slice's bytes, given the whole tensor's.
    fn cut(nth: Option<Self>, bytes: &[u8]) -> &[u8] {
        match nth {
            Some(Self { index, of }) => &bytes[bytes.len() / of * index..][..bytes.len() / of],
            None => bytes,
        }
    }
}

/// A row of [`Arch::names`].
type Named = (Part, &'static str, &'static str);

/// The matrix that a config promises.
#[derive(Clone, Copy, Debug)]
pub struct Matrix {
    /// Outputs.
    pub rows: usize,
    /// Inputs.
    pub cols: usize,
    /// Whether it has a bias.
    pub bias: bool,
    /// Heads that the rows are divided into; 1 where they are not.
    pub heads: usize,
}

/// Where the tensors lie.
#[derive(Debug)]
enum Source {
    Folder(Folder),
    Gguf(GgufFile),
}

/// Names of text tensors in a folder: before layers and embedding, and before the head.
const ROOTS: [(&str, &str); 4] =
    [("model.", ""), ("language_model.model.", "language_model."), ("model.language_model.", ""), ("", "")];

/// In a name: the number of the expert.
pub(crate) const EACH: &str = "{}";

/// Tensors of GGUF files that belong to the config.
const ROTATIONS: [&str; 3] = ["rope_freqs.weight", "rope_factors_long.weight", "rope_factors_short.weight"];

/// A model's tensors by part.
#[derive(Debug)]
pub struct Weights {
    source: Arc<Source>,
    arch: &'static Arch,
    config: Config,
    roots: (&'static str, &'static str),
    device: Device,
    taken: BTreeSet<String>,
}

impl Weights {
    /// Opens a model folder or a GGUF file. Headers are read and checked; no tensor is.
    ///
    /// # Errors
    /// When the path is no model, a file is damaged or absent, or the architecture is not known.
    pub fn open(path: &Path, device: &Device) -> Result<Self> {
        if path.is_dir() && path.join("config.json").is_file() {
            let config = Config::read(&path.join("config.json"))?;
            let arch = Arch::of_config(&config)?;
            let packing = config.quantization()?;
            let folder = Folder::open(path)?.packed_as(packing);
            let roots = ROOTS.iter().find(|(root, _)| folder.holds(&format!("{root}embed_tokens.weight")));
            let roots = *roots.unwrap_or(&ROOTS[0]);
            Ok(Self::new(Source::Folder(folder), arch, config, roots, device))
        } else if path.is_file() {
            let file = GgufFile::open(path)?;
            let described = || {
                let arch = Arch::of_gguf(file.gguf(), path)?;
                Ok((arch, config::from_gguf(&file, arch)?))
            };
            let (arch, config) = described().map_err(|error: Error| error.in_gguf(path))?;
            Ok(Self::new(Source::Gguf(file), arch, config, ("", ""), device))
        } else {
            Err(Error::NotAModel { path: path.to_owned() })
        }
    }

    fn new(
        source: Source,
        arch: &'static Arch,
        config: Config,
        roots: (&'static str, &'static str),
        device: &Device,
    ) -> Self {
        Self { source: Arc::new(source), arch, config, roots, device: device.clone(), taken: BTreeSet::new() }
    }

    /// What the model says of itself, under the keys of config.json.
    pub fn config(&self) -> &Config {
        &self.config
    }

    /// The architecture.
    pub fn arch(&self) -> &'static Arch {
        self.arch
    }

    /// Oddities that do not prevent loading.
    pub fn warnings(&self) -> Vec<Warning> {
        match &*self.source {
            Source::Folder(folder) => folder.warnings().to_vec(),
            Source::Gguf(_) => Vec::new(),
        }
    }

    /// The tensor files, to be read beside the load.
    pub(crate) fn contents(&self) -> Contents {
        Contents(self.source.clone())
    }

    /// Values and bytes of the tensors taken so far, and the types these bytes are stored in, the most used one first.
    pub(crate) fn tally(&self) -> Tally {
        let stored = |name: &String| match &*self.source {
            Source::Folder(folder) => folder.stored(name),
            Source::Gguf(file) => file.stored(name),
        };
        let mut tally = Tally { parameters: 0, bytes: 0, dtypes: Vec::new() };
        for (kind, elems, bytes) in self.taken.iter().filter_map(stored) {
            tally.parameters += elems;
            tally.bytes += bytes;
            match tally.dtypes.iter_mut().find(|(known, _)| *known == kind) {
                Some((_, sum)) => *sum += bytes,
                None => tally.dtypes.push((kind, bytes)),
            }
        }
        tally.dtypes.sort_by_key(|(kind, bytes)| (std::cmp::Reverse(*bytes), *kind));
        tally
    }

    /// The name of a part in a model folder, without `.weight`.
    pub fn folder_name(&self, at: At) -> String {
        self.in_folder(at, self.row(at).1)
    }

    fn in_folder(&self, at: At, name: &str) -> String {
        let roots = if matches!(*self.source, Source::Gguf(_)) { ROOTS[0] } else { self.roots };
        let name = match at.expert {
            Some(Nth { index, .. }) => name.replace(EACH, &index.to_string()),
            None => name.to_owned(),
        };
        match (at.layer, at.part) {
            (Some(layer), _) => format!("{}layers.{layer}.{name}", roots.0),
            (None, Part::Head) => format!("{}{name}", roots.1),
            (None, _) => format!("{}{name}", roots.0),
        }
    }

    /// The names of a part; where the architecture has several, those that the file uses.
    fn row(&self, at: At) -> Named {
        let mut rows = self.arch.names.iter().filter(|(part, ..)| *part == at.part).copied();
        let first = rows.next();
        let first = first.unwrap_or_else(|| panic!("{} has no name for {:?}", self.arch.model_type, at.part));
        match rows.next() {
            None => first,
            Some(second) => {
                let there = |row: &Named| self.holds(&self.name_by(*row, at, "weight"));
                [first, second].into_iter().chain(rows).find(there).unwrap_or(first)
            }
        }
    }

    fn name(&self, at: At, end: &str) -> String {
        self.name_by(self.row(at), at, end)
    }

    fn name_by(&self, (_, folder, gguf): Named, at: At, end: &str) -> String {
        let name = match (&*self.source, at.layer) {
            (Source::Folder(_), _) => self.in_folder(at, folder),
            (Source::Gguf(_), Some(layer)) => format!("blk.{layer}.{gguf}"),
            (Source::Gguf(_), None) => gguf.to_owned(),
        };
        // Parameters that are no layer of their own have no ending, or one after a line.
        match end {
            "bias" if self.holds(&format!("{name}_bias")) => format!("{name}_bias"),
            "weight" if self.holds(&format!("{name}_blocks")) => format!("{name}_blocks"),
            _ if self.holds(&name) => name,
            _ => format!("{name}.{end}"),
        }
    }

    fn holds(&self, name: &str) -> bool {
        match &*self.source {
            Source::Folder(folder) => folder.holds(name),
            Source::Gguf(file) => file.holds(name),
        }
    }

    /// Which slice of the tensor an expert is; none where each has a tensor of its own.
    fn nth(&self, at: At) -> Option<Nth> {
        let (_, folder, gguf) = self.row(at);
        let name = if matches!(*self.source, Source::Folder(_)) { folder } else { gguf };
        at.expert.filter(|_| !name.contains(EACH))
    }

    /// A matrix as something to multiply by, in the precision it is stored in.
    ///
    /// # Errors
    /// When it is absent, of another shape, or of a type that does not load.
    pub fn linear(&mut self, at: At, want: Matrix) -> Result<Linear> {
        let order = self.order(at, want);
        self.ordered(at, want, order.as_deref())
    }

    /// Rows of matrix and bias in an order of their own.
    fn ordered(&mut self, at: At, want: Matrix, order: Option<&[usize]>) -> Result<Linear> {
        let bias = match want.bias {
            true => Some(self.place(self.floats(at, "bias", want.rows, order)?, &self.name(at, "bias"))?),
            false => None,
        };
        self.taken.extend(bias.is_some().then(|| self.name(at, "bias")));
        let linear = self.matrix(at, want, order, bias)?;
        let name = self.name(at, "weight");
        if let Source::Folder(folder) = &*self.source {
            self.taken.extend(folder.beside(&name));
        }
        self.taken.insert(name);
        Ok(linear)
    }

    /// Matrices with one input as one, whether the file has them apart or in the one tensor `whole`.
    ///
    /// # Errors
    /// When one is absent, of another shape, or of a type that does not load.
    pub fn stacked(&mut self, whole: At, parts: &[(At, Matrix)]) -> Result<Linear> {
        let named = |part| self.arch.names.iter().any(|(p, ..)| *p == part);
        let (first, want) = parts[0];
        if named(whole.part) && (!named(first.part) || self.holds(&self.name(whole, "weight"))) {
            let rows = parts.iter().map(|(_, want)| want.rows).sum();
            return self.linear(whole, Matrix { rows, heads: 1, ..want });
        }
        let apart = parts.iter().map(|(at, want)| self.linear(*at, *want)).collect::<Result<_>>()?;
        Linear::stack(apart).map_err(|source| Error::device(&self.name(first, "weight"), source))
    }

    /// A matrix in f32, whatever it is stored in.
    ///
    /// # Errors
    /// As [`Self::linear`].
    pub fn wide(&mut self, at: At, want: Matrix) -> Result<Linear> {
        let stored = self.linear(at, want)?;
        let wide = stored.dequantize().and_then(|w| Linear::dense(w, stored.bias().cloned()));
        wide.map_err(|source| Error::device(&self.name(at, "weight"), source))
    }

    /// Gate above up, of a tensor in which their rows take turns; `want` is what each is.
    ///
    /// # Errors
    /// As [`Self::linear`].
    pub fn alternating(&mut self, at: At, want: Matrix) -> Result<Linear> {
        let order: Vec<usize> = (0..want.rows).map(|r| 2 * r).chain((0..want.rows).map(|r| 2 * r + 1)).collect();
        self.ordered(at, Matrix { rows: 2 * want.rows, ..want }, Some(&order))
    }

    /// A vector where the model computes, in f32.
    ///
    /// # Errors
    /// As [`Self::vector`].
    pub fn placed(&mut self, at: At, len: usize) -> Result<Tensor> {
        let values = self.vector(at, "weight", len)?;
        self.place(values, &self.name(at, "weight"))
    }

    /// A vector in f32.
    ///
    /// # Errors
    /// When it is absent, of another shape, or of a type that does not load.
    pub fn vector(&mut self, at: At, end: &str, len: usize) -> Result<Vec<f32>> {
        let values = self.floats(at, end, len, None)?;
        self.taken.insert(self.name(at, end));
        Ok(values)
    }

    fn matrix(&self, at: At, want: Matrix, order: Option<&[usize]>, bias: Option<Tensor>) -> Result<Linear> {
        let name = self.name(at, "weight");
        match &*self.source {
            Source::Folder(folder) => folder.matrix(&name, want, (order, self.nth(at)), bias, &self.device),
            Source::Gguf(file) => file.matrix(&name, want, (order, self.nth(at)), bias, &self.device),
        }
    }

    /// The weight of a norm, in f32, with the architecture's offset folded in.
    ///
    /// # Errors
    /// When it is absent, of another shape, or of a type that does not load.
    pub fn norm(&mut self, at: At, len: usize) -> Result<Tensor> {
        debug_assert!(at.part.is_norm());
        let mut values = self.floats(at, "weight", len, None)?;
        self.taken.insert(self.name(at, "weight"));
        if matches!(*self.source, Source::Folder(_)) && self.arch.norm_offset != 0.0 {
            // In f32: 1 + w rounded to bf16 is off by up to one part in 250.
            values.iter_mut().for_each(|w| *w += self.arch.norm_offset);
        }
        self.place(values, &self.name(at, "weight"))
    }

    /// All values of a tensor in f32, rows as a model folder has them.
    fn floats(&self, at: At, end: &str, len: usize, order: Option<&[usize]>) -> Result<Vec<f32>> {
        let name = self.name(at, end);
        let stored = match &*self.source {
            Source::Folder(folder) => folder.floats(&name, &[len], self.nth(at)),
            Source::Gguf(file) => file.vector(&name, len, self.nth(at)),
        }?;
        Ok(match order {
            Some(order) => order.iter().map(|row| stored[*row]).collect(),
            None => stored,
        })
    }

    /// For each row of a model folder's matrix, the row of the file; none when they are the same.
    fn order(&self, at: At, want: Matrix) -> Option<Vec<usize>> {
        let interleaved = self.arch.gguf_interleaves && matches!(*self.source, Source::Gguf(_));
        if !interleaved || !matches!(at.part, Part::Query | Part::Key) {
            return None;
        }
        let (dim, half) = (want.rows / want.heads, want.rows / want.heads / 2);
        // The file keeps the two halves of a head's rotation pairs side by side: row (head, j, side) for (head, side, j).
        Some((0..want.rows).map(|r| (r / dim) * dim + (r % half) * 2 + (r % dim) / half).collect())
    }

    fn place(&self, values: Vec<f32>, name: &str) -> Result<Tensor> {
        let len = values.len();
        Tensor::from_vec(values, len, &self.device).map_err(|source| Error::device(name, source))
    }

    /// Refuses a file with tensors that nobody asked for.
    ///
    /// # Errors
    /// Naming the first of them.
    pub fn finish(&self) -> Result<()> {
        let spare = self.spare_layers()?;
        let is_spare = |name: &str| spare.iter().any(|layer| name.starts_with(layer));
        let left: Vec<&str> = match &*self.source {
            // Of a model with several parts only the text part is looked at. A stored copy of a tied head is decoration.
            Source::Folder(folder) => folder
                .names()
                .filter(|n| n.starts_with(self.roots.0) && *n != "lm_head.weight" && !n.ends_with(".inv_freq"))
                .collect(),
            // Read with the config.
            Source::Gguf(file) => file.names().filter(|n| !ROTATIONS.contains(n)).collect(),
        };
        let mut left = left.into_iter().filter(|name| !self.taken.contains(*name) && !is_spare(name));
        let Some(first) = left.next() else { return Ok(()) };
        let (file, first) = (self.config.file().to_owned(), first.to_owned());
        Err(Error::Leftover { file, first, count: 1 + left.count(), model_type: self.arch.model_type })
    }
}

impl Weights {
    /// How the names of layers begin that guess further tokens; they stand behind the model's own.
    fn spare_layers(&self) -> Result<Vec<String>> {
        let spare = self.config.count_or("num_nextn_predict_layers", 0, 0..=16)?;
        if spare == 0 {
            return Ok(Vec::new());
        }
        let first = self.config.count("num_hidden_layers", 1..=1024)?;
        let name = |layer| match &*self.source {
            Source::Folder(_) => format!("{}layers.{layer}.", self.roots.0),
            Source::Gguf(_) => format!("blk.{layer}."),
        };
        Ok((first..first + spare).map(name).collect())
    }
}

/// All bytes of the tensor files.
pub(crate) struct Contents(Arc<Source>);

impl Contents {
    /// File by file, in a fixed order.
    pub(crate) fn files(&self) -> impl Iterator<Item = &[u8]> {
        let (folder, file) = match &*self.0 {
            Source::Folder(folder) => (Some(folder.contents()), None),
            Source::Gguf(file) => (None, Some(file.bytes())),
        };
        folder.into_iter().flatten().chain(file)
    }
}

/// What was loaded, in numbers.
pub(crate) struct Tally {
    pub(crate) parameters: u64,
    pub(crate) bytes: u64,
    pub(crate) dtypes: Vec<(&'static str, u64)>,
}

#[cfg(test)]
mod tests;
