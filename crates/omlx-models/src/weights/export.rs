//! Every tensor as a model folder would hold it: its name, its row order, norms without the offset, values in f32.
//!
//! For tools that turn one format into another; loading a model does not come through here.

use super::{At, Matrix, Part, Source, Weights};
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
        let mut all = Vec::new();
        let parts = || self.arch.names.iter().map(|(part, ..)| *part);
        let once = parts().map(Part::once);
        let each = (0..layers).flat_map(|layer| parts().map(move |part| part.of(layer)));
        for at in once.chain(each) {
            for end in ["weight", "bias"] {
                if let Some(shape) = self.shape(&self.name(at, end)) {
                    all.push(Export { name: format!("{}.{end}", self.folder_name(at)), shape, at, end });
                }
            }
        }
        Ok(all)
    }

    fn shape(&self, name: &str) -> Option<Vec<usize>> {
        match &*self.source {
            Source::Folder(folder) => folder.shape(name).map(<[_]>::to_vec),
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
