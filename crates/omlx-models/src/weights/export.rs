//! Every tensor as a model folder would hold it: its name, its row order, norms without the offset, values in f32.
//!
//! For tools that turn one format into another; loading a model does not come through here.

use std::collections::BTreeSet;

use super::{At, EACH, Matrix, Part, Source, Weights};
use crate::{Error, Result};

/// One tensor of the model under its name in a folder.
#[derive(Clone, Debug)]
pub struct Export {
    /// Its name.
    pub name: String,
    /// Its shape, outermost first.
    pub shape: Vec<usize>,
    at: At,
    end: &'static str,
}

impl Weights {
    /// All tensors that are there, in the order of the model.
    ///
    /// # Errors
    /// When the config has no number of layers.
    pub fn exports(&self) -> Result<Vec<Export>> {
        let layers = self.config.count("num_hidden_layers", 1..=1024)?;
        let (mut all, mut seen) = (Vec::new(), BTreeSet::new());
        let parts = || self.arch.names.iter().map(|(part, ..)| *part);
        let once = parts().map(Part::once);
        let each = (0..layers).flat_map(|layer| parts().map(move |part| part.of(layer)));
        for at in once.chain(each) {
            if at.part.is_experts() {
                let count = self.count(at);
                (0..count).for_each(|index| self.export(at.expert(index, count), &mut seen, &mut all));
            } else {
                self.export(at, &mut seen, &mut all);
            }
        }
        Ok(all)
    }

    /// How many experts a layer's tensors have.
    fn count(&self, at: At) -> usize {
        match (self.nth(at.expert(0, 1)), self.shape(&self.name(at, "weight"))) {
            (Some(_), shape) => shape.map_or(0, |shape| shape[0]),
            (None, _) => (0..).take_while(|index| self.holds(&self.name(at.expert(*index, 1), "weight"))).count(),
        }
    }

    fn export(&self, at: At, seen: &mut BTreeSet<(String, Option<usize>)>, all: &mut Vec<Export>) {
        let nth = self.nth(at);
        for end in ["weight", "bias"] {
            let stored = self.name(at, end);
            let Some(shape) = self.shape(&stored) else { continue };
            // A part may have several names, and a tensor without ending answers to both.
            if seen.insert((stored.clone(), nth.map(|nth| nth.index))) {
                let name = self.published(at);
                let name = if stored == name { name } else { format!("{name}.{end}") };
                all.push(Export { name, shape: shape[usize::from(nth.is_some())..].to_vec(), at, end });
            }
        }
    }

    /// The name in a folder as models are published: each expert has tensors of its own.
    fn published(&self, at: At) -> String {
        let first = self.arch.names.iter().find(|(part, ..)| *part == at.part);
        match (first, at.expert) {
            (Some((_, name, _)), Some(nth)) if !name.contains(EACH) => {
                self.in_folder(at, &name.replacen(".experts.", &format!(".experts.{}.", nth.index), 1))
            }
            (Some((_, name, _)), Some(_)) => self.in_folder(at, name),
            _ => self.folder_name(at),
        }
    }

    fn shape(&self, name: &str) -> Option<Vec<usize>> {
        match &*self.source {
            Source::Folder(folder) => folder.shape(name),
            Source::Gguf(file) => file.gguf().tensor(name).map(|t| t.dims.clone()),
        }
    }

    /// The values of one of them.
    ///
    /// # Errors
    /// When its type does not load.
    pub fn values(&self, export: &Export) -> Result<Vec<f32>> {
        let heads = match export.at.part {
            Part::Query => self.config.count("num_attention_heads", 1..=1024)?,
            Part::Key => self.config.count("num_key_value_heads", 1..=1024)?,
            _ => 1,
        };
        match *export.shape.as_slice() {
            [len] => {
                let order = self.order(export.at, Matrix { rows: len, cols: 1, bias: true, heads });
                let mut values = self.floats(export.at, export.end, len, order.as_deref())?;
                if export.at.part.is_norm() && matches!(*self.source, Source::Gguf(_)) && self.arch.norm_offset != 0.0 {
                    values.iter_mut().for_each(|w| *w -= self.arch.norm_offset);
                }
                Ok(values)
            }
            [rows, cols] => {
                let want = Matrix { rows, cols, bias: false, heads };
                let order = self.order(export.at, want);
                let linear = self.matrix(export.at, want, order.as_deref(), None)?;
                linear
                    .dequantize()
                    .and_then(|w| Ok(w.flatten_all()?.to_vec1()?))
                    .map_err(|source| Error::device(&export.name, source))
            }
            _ => Err(Error::Shape {
                file: self.config.file().to_owned(),
                tensor: export.name.clone(),
                expected: vec![0, 0],
                found: export.shape.clone(),
            }),
        }
    }
}
