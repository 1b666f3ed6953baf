//! Which models there are, and how a name becomes one that answers. Implemented by whoever owns the models.

use std::sync::Arc;

use futures_core::future::BoxFuture;
use omlx_api::EngineHandle;
use omlx_markup::Markup;
use omlx_text::TextModel;
use thiserror::Error;

use crate::memory::Memory;
use crate::prefixes::Prefixes;
use crate::sampling::Owner;

/// The models behind a router.
pub trait Catalog: Send + Sync {
    /// Every model that can be named, in the order to list them, loaded or not.
    fn cards(&self) -> Vec<Card>;

    /// What the list says of the model that [`Catalog::open`] would open by this name; loads nothing. Both take the same names.
    ///
    /// # Errors
    /// [`OpenError::Unknown`] and [`OpenError::Ambiguous`], as from `open`.
    fn card(&self, name: &str) -> Result<Card, OpenError>;

    /// A model ready to answer; loads it if need be. Dropping the future means that the client has gone.
    fn open(&self, name: &str) -> BoxFuture<'_, Result<Served, OpenError>>;

    /// The engines that are loaded now, dead ones included, with their models' ids.
    fn engines(&self) -> Vec<(String, EngineHandle)>;

    /// What the memory guard sees; `None` where nobody watches the memory.
    fn memory(&self) -> Option<Memory> {
        None
    }

    /// Has the memory guard keep to other limits from now on, in the words of the owner's setting, and answers what it sees then.
    ///
    /// # Errors
    /// [`GuardError::Off`] where nobody watches, and [`GuardError::Words`] where the words are no limits.
    fn set_memory(&self, _words: &str) -> Result<Memory, GuardError> {
        Err(GuardError::Off)
    }

    /// What is kept of prompts beside the engines; `None` where nothing is.
    fn prefixes(&self) -> Option<Prefixes> {
        None
    }
}

/// What a list of models says about one of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Card {
    /// The name that [`Catalog::open`] takes.
    pub id: String,
    /// When the model's files were made, in seconds since 1970.
    pub created: u64,
    /// Most tokens of a prompt and its answer, where known without loading it.
    pub context: Option<usize>,
    /// Why it cannot be served, and what to do about it. Such a model is not listed; asking for it shows this text.
    pub trouble: Option<String>,
}

/// A model ready to answer.
#[derive(Clone, Debug)]
pub struct Served {
    /// Its full name, whatever name it was asked for by.
    pub id: String,
    /// Where token ids go.
    pub engine: EngineHandle,
    /// Text to ids and back.
    pub text: Arc<TextModel>,
    /// How long a prompt and its answer may be.
    pub bounds: Bounds,
    /// What the server's owner set.
    pub owner: Owner,
    /// What it writes besides content ([`Settings::markup`](crate::Settings::markup)).
    pub markup: Markup,
}

/// What bounds a prompt and its answer together, in tokens. The two are told apart to clients: a context that is exceeded
/// asks for a shorter history, and memory that is short for more memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Bounds {
    /// What the model was made for, or less if its owner said so.
    pub context: usize,
    /// What the memory for keys and values holds.
    pub capacity: usize,
}

impl Bounds {
    /// The smaller one.
    pub fn most(self) -> usize {
        self.context.min(self.capacity)
    }
}

/// Why the memory guard keeps to the limits that it has.
#[derive(Clone, Debug, PartialEq, Eq, Error)]
#[non_exhaustive]
pub enum GuardError {
    /// There is none, and no engine would ask one.
    #[error("this server was started without a memory guard; start it again with one (--memory-guard)")]
    Off,
    /// The words say nothing that it could keep to.
    #[error("{reason}")]
    Words {
        /// What is wrong with them, and what may be said.
        reason: String,
    },
}

/// Why a name did not become a model.
#[derive(Debug, Error)]
#[non_exhaustive]
pub enum OpenError {
    /// No model has this name.
    #[error("no model has this name")]
    Unknown,
    /// Several models end in this name.
    #[error("several models have this name: {}; use the full name", candidates.join(", "))]
    Ambiguous {
        /// Their full names.
        candidates: Vec<String>,
    },
    /// The model is there but its files cannot be used.
    #[error("{reason}")]
    Unusable {
        /// Which file, what is wrong with it, and the way out.
        reason: String,
    },
    /// The model could be used, but there is no memory for it now. Asking again later may help.
    #[error("{reason}")]
    NoRoom {
        /// What it needs and what there is.
        reason: String,
    },
    /// The model could be used, but not by this server as it was started, with the models that are loaded: asking again changes
    /// nothing.
    #[error("{reason}")]
    NeverFits {
        /// What it needs and what there is, and the way out.
        reason: String,
    },
    /// The server ends before the model is loaded.
    #[error("the server is stopping, and the model is not loaded; ask again once it is back")]
    Stopping,
    /// The load takes longer than anybody should wait.
    #[error("the model is still being loaded after {seconds} s; ask again later, or look at the disk that holds it")]
    Slow {
        /// How long this request has waited.
        seconds: u64,
    },
}
