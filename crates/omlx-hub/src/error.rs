//! Why a name did not become a model, and what to do about it.

use std::io;
use std::path::{Path, PathBuf};

use crate::complete::Fault;
use crate::discover::Found;

/// This crate's result.
pub type Result<T, E = Error> = std::result::Result<T, E>;

/// Why a name did not become a complete model on disk.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum Error {
    /// Nothing of that name anywhere that was looked.
    #[error("no model `{name}` here; looked in {looked}{hint}")]
    NotFound {
        /// The name asked for.
        name: String,
        /// The places that were looked in.
        looked: String,
        /// The way out, beginning with a separator.
        hint: &'static str,
    },
    /// A path to nothing.
    #[error("there is no file or folder {}{}; give a .gguf file, or a folder that holds config.json", path.display(), unexpanded(path))]
    NoSuchPath {
        /// What was given.
        path: PathBuf,
    },
    /// A link that leads to no model of the hub.
    #[error("{link} is no link to a model of the hub; give owner/name, or fetch the file and give its path")]
    Link {
        /// What was given.
        link: String,
    },
    /// A path to a file that is no model by itself.
    #[error("{}: a file, but no .gguf file; give the .gguf file, or the folder that holds config.json", path.display())]
    NoModelFile {
        /// What was given.
        path: PathBuf,
    },
    /// A bare last name that several models share.
    #[error("`{name}` may be any of {}; use a full name", candidates.join(", "))]
    Ambiguous {
        /// The name asked for.
        name: String,
        /// The models that end in it.
        candidates: Vec<String>,
    },
    /// The model is here, but not wholly or not usable.
    #[error("model `{}` cannot be served: {fault}", found.id)]
    Incomplete {
        /// What is here, for those who list it all the same.
        found: Box<Found>,
        /// Which file, and what to do.
        fault: Fault,
    },
    /// A LoRA adapter was asked for as if it were a model.
    #[error("`{name}` is an adapter{}, not a model", base.as_ref().map(|b| format!(" for {b}")).unwrap_or_default())]
    IsAdapter {
        /// Its name.
        name: String,
        /// The model it adapts, where it says.
        base: Option<String>,
    },
    /// A name that no repository can have.
    #[error("`{name}` is no repository name; expected owner/name, owner/name@revision or owner/name/file.gguf")]
    BadRepo {
        /// The name asked for.
        name: String,
    },
    /// A file name in a listing that would leave its folder.
    #[error("repository {repo} lists the unsafe file name {file:?}; nothing was downloaded")]
    UnsafeName {
        /// The repository.
        repo: String,
        /// The name in the listing.
        file: String,
    },
    /// Several GGUF files and no word which.
    #[error("repository {repo} holds several GGUF files; name one: {}", files.iter().map(|f| format!("{repo}/{f}")).collect::<Vec<_>>().join(", "))]
    ChooseFile {
        /// The repository.
        repo: String,
        /// The files to choose from.
        files: Vec<String>,
    },
    /// A repository without anything that can be served.
    #[error("repository {repo} holds no .safetensors and no .gguf file{}", file.as_ref().map(|f| format!(" named {f}")).unwrap_or_default())]
    NoWeights {
        /// The repository.
        repo: String,
        /// The file that was asked for, if one was.
        file: Option<String>,
    },
    /// The hub wants a token, or another one.
    #[error(
        "{url}: the hub answered {status}; the repository may be private, gated or absent: give a token that may read it"
    )]
    Denied {
        /// What was asked for.
        url: String,
        /// 401 or 403.
        status: u16,
    },
    /// The hub does not know the repository, revision or file.
    #[error("{url}: not on the hub; check the spelling of owner/name and of the revision or file behind it")]
    NotOnHub {
        /// What was asked for.
        url: String,
    },
    /// Any other answer but success.
    #[error("{url}: the hub answered {status}")]
    Status {
        /// What was asked for.
        url: String,
        /// The HTTP status.
        status: u16,
    },
    /// A redirect that leads nowhere good.
    #[error("{url}: refused redirect to {to:?}: {why}")]
    Redirect {
        /// What was asked for.
        url: String,
        /// The `Location` given.
        to: String,
        /// What is wrong with it.
        why: &'static str,
    },
    /// No connection, or one that broke too often.
    #[error(
        "{url} cannot be reached ({source}); look at the network, or name another hub with HF_ENDPOINT or a proxy with HTTPS_PROXY; what had arrived, if anything, is kept"
    )]
    Network {
        /// What was asked for.
        url: String,
        /// What the client says.
        source: Box<ureq::Error>,
    },
    /// A listing that is not what the hub's API promises.
    #[error("{url}: the hub's listing cannot be read: {source}")]
    Listing {
        /// What was asked for.
        url: String,
        /// Where it is wrong.
        source: serde_json::Error,
    },
    /// A listing that is too long to be one.
    #[error("{url}: the hub's listing is longer than {limit} bytes")]
    ListingTooLong {
        /// What was asked for.
        url: String,
        /// The limit in bytes.
        limit: u64,
    },
    /// The hub sent more or fewer bytes than it had announced, twice.
    #[error("{file}: expected {expected} bytes, received {found}")]
    Size {
        /// The file.
        file: String,
        /// The size in the listing.
        expected: u64,
        /// The size that came.
        found: u64,
    },
    /// The bytes are not the ones the hub named, twice.
    #[error("{file}: sha256 is {found}, the hub says {expected}; the file was thrown away, ask again")]
    Checksum {
        /// The file.
        file: String,
        /// The sum in the listing.
        expected: String,
        /// The sum of what came.
        found: String,
    },
    /// Somebody else is fetching the same file.
    #[error("{file} is being downloaded by another process or request; wait for it")]
    Busy {
        /// The file.
        file: String,
    },
    /// The caller's progress callback asked to stop.
    #[error("download of {repo} cancelled; what has arrived is kept until remove_partials")]
    Cancelled {
        /// The repository.
        repo: String,
    },
    /// No room left.
    #[error("{}: the disk is full; make room and ask again, what has arrived is kept", path.display())]
    DiskFull {
        /// The file that could not grow.
        path: PathBuf,
    },
    /// The operating system refused.
    #[error("{}: {source}", path.display())]
    Io {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
}

/// A home folder that the shell has left as it was.
fn unexpanded(path: &Path) -> &'static str {
    if path.starts_with("~") {
        " (the shell puts your home folder for `~` at the beginning of a word only)"
    } else {
        ""
    }
}

impl Error {
    /// Wraps an operating-system error on `path`.
    pub(crate) fn io(path: &Path) -> impl FnOnce(io::Error) -> Self + '_ {
        move |source| match source.kind() {
            io::ErrorKind::StorageFull | io::ErrorKind::QuotaExceeded => Self::DiskFull { path: path.to_owned() },
            _ => Self::Io { path: path.to_owned(), source },
        }
    }
}
