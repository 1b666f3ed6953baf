//! Whether a model that stands on disk looks as if it can be served: all that shows without reading its weights.
//!
//! What fails here is not offered. It may still be asked for by name, which loads it anew and says what is wrong by then.

use omlx_hub::{Form, Found};

/// What is wrong with a model, with file and remedy, as far as its headers and its folder say.
pub(super) fn trouble(found: &Found) -> Option<String> {
    if let Err(fault) = &found.state {
        // Some faults name the file within the folder, some the whole path, most neither.
        let (path, fault) = (found.path.display().to_string(), fault.to_string());
        return Some(if fault.starts_with(&path) { fault } else { format!("{path}: {fault}") });
    }
    if let Err(error) = omlx_models::check(&found.path) {
        return Some(error.to_string());
    }
    // A vocabulary takes too long to read for a look, but it has to be there.
    let lacks = found.form == Form::Folder && !found.path.join("tokenizer.json").is_file();
    lacks.then(|| omlx_text::Error::NoTokenizer { path: found.path.clone() }.to_string())
}
