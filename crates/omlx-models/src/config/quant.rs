//! How a folder's weights are packed: `quantization` as MLX writes it, for all modules and for some by name.

use std::collections::BTreeMap;

use serde_json::Value;

use super::Config;
use crate::Result;

/// Widths and groups of MLX's affine format.
const BITS: [usize; 6] = [2, 3, 4, 5, 6, 8];
const GROUPS: [usize; 3] = [32, 64, 128];

/// One matrix's packing: codes of so many bits, a scale and a bias for so many neighbours.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Affine {
    /// Width of a code.
    pub bits: usize,
    /// Codes that share scale and bias.
    pub group: usize,
}

/// The packing of a model's matrices.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Quantization {
    all: Option<Affine>,
    /// By the path of the module; none where it is kept as it was.
    modules: BTreeMap<String, Option<Affine>>,
    mxfp4: bool,
}

impl Quantization {
    /// Whether experts are stored as gpt-oss stores them, in blocks with exponents.
    pub fn is_mxfp4(&self) -> bool {
        self.mxfp4
    }

    /// The packing of the module at `path`, if it has one.
    pub fn of(&self, path: &str) -> Option<Affine> {
        self.modules.get(path).copied().unwrap_or(self.all)
    }
}

impl Config {
    /// How weights are packed.
    ///
    /// # Errors
    /// When the config names a scheme, a mode, a width or a group that is not known: the tensors would be misread.
    pub fn quantization(&self) -> Result<Quantization> {
        const MXFP4: &str = "mxfp4";
        const KNOWN: &str = "MLX's affine; else use the unquantised folder or a .gguf file";
        // MLX writes both, and the same in both.
        for key in ["quantization", "quantization_config"] {
            let Some(how) = self.section(key)? else { continue };
            if let Some(scheme) = how.opt::<String>("quant_method")? {
                how.word("quant_method", &scheme, &[(MXFP4, ()), (KNOWN, ())])?;
                return Ok(Quantization { mxfp4: true, ..Quantization::default() });
            }
            if !how.keys.contains_key("bits") {
                return Err(self.bad(key, "an object that names neither method nor bits", KNOWN));
            }
            let all = how.affine(None)?;
            let mut modules = BTreeMap::new();
            for (name, value) in &how.keys {
                match value {
                    Value::Object(_) => {
                        let own = how.section(name)?.map(|own| own.affine(Some(all))).transpose()?;
                        modules.insert(name.clone(), own);
                    }
                    // True is what the whole model has.
                    Value::Bool(false) => drop(modules.insert(name.clone(), None)),
                    _ => {}
                }
            }
            return Ok(Quantization { all: Some(all), modules, mxfp4: false });
        }
        Ok(Quantization::default())
    }

    fn affine(&self, absent: Option<Affine>) -> Result<Affine> {
        let mode: String = self.or("mode", "affine".to_owned())?;
        self.word("mode", &mode, &[("affine", ())])?;
        let one_of = |key: &str, absent: Option<usize>, known: &[usize]| -> Result<usize> {
            let n = match absent {
                Some(n) => self.or(key, n)?,
                None => self.need(key)?,
            };
            if known.contains(&n) { Ok(n) } else { Err(self.bad(key, n.to_string(), format!("one of {known:?}"))) }
        };
        let bits = one_of("bits", absent.map(|a| a.bits), &BITS)?;
        Ok(Affine { bits, group: one_of("group_size", absent.map(|a| a.group), &GROUPS)? })
    }
}
