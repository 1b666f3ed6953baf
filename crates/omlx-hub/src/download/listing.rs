//! What a repository holds, and which of it a model needs.

use std::io::Read;

use serde::Deserialize;
use sha2::{Digest, Sha256};

use super::client::Client;
use crate::cache::is_plain;
use crate::error::{Error, Result};
use crate::resolve::Repo;

/// The longest listing that is read. A repository of 10,000 files takes about 3 MB.
const MAX_LISTING_BYTES: u64 = 16 << 20;

/// One commit of a repository.
pub(super) struct Listing {
    pub(super) commit: String,
    files: Vec<File>,
}

/// A file of a repository.
#[derive(Clone)]
pub(super) struct File {
    /// Its path below the repository's root.
    pub(super) name: String,
    /// Its size.
    pub(super) bytes: u64,
    /// What its blob is called in the cache: the hub's own sum where it gives one.
    pub(super) sum: String,
    /// The sha256 of its bytes, where the hub says so (all large files).
    pub(super) sha256: Option<String>,
}

#[derive(Deserialize)]
struct Wire {
    sha: String,
    siblings: Vec<Sibling>,
}

#[derive(Deserialize)]
struct Sibling {
    rfilename: String,
    size: u64,
    #[serde(rename = "blobId")]
    blob_id: Option<String>,
    lfs: Option<Lfs>,
}

#[derive(Deserialize)]
struct Lfs {
    sha256: String,
}

impl Listing {
    /// Asks the hub for the listing of a repository.
    pub(super) fn get(client: &Client, repo: &Repo) -> Result<Self> {
        let url = client.listing_url(&repo.name, &repo.revision);
        let mut text = Vec::new();
        let body = client.get(&url, 0)?.into_body();
        let network = |e: std::io::Error| Error::Network { url: url.clone(), source: Box::new(e.into()) };
        body.into_reader().take(MAX_LISTING_BYTES + 1).read_to_end(&mut text).map_err(network)?;
        if text.len() as u64 > MAX_LISTING_BYTES {
            return Err(Error::ListingTooLong { url, limit: MAX_LISTING_BYTES });
        }
        let wire: Wire = serde_json::from_slice(&text).map_err(|source| Error::Listing { url: url.clone(), source })?;
        if !is_plain(&wire.sha) {
            return Err(Error::UnsafeName { repo: repo.name.clone(), file: wire.sha });
        }
        let files = wire.siblings.into_iter().map(|s| file(repo, &wire.sha, s)).collect::<Result<_>>()?;
        Ok(Self { commit: wire.sha, files })
    }

    /// The files a model needs, small ones first: they are what a wrong choice shows in.
    pub(super) fn wanted(&self, repo: &Repo) -> Result<Vec<File>> {
        let gguf: Vec<&File> = self.files.iter().filter(|f| f.name.ends_with(".gguf")).collect();
        let mut wanted: Vec<File> = match &repo.file {
            Some(name) => gguf.into_iter().filter(|f| f.name == *name).cloned().collect(),
            None => self.files.iter().filter(|f| belongs(&f.name)).cloned().collect(),
        };
        if repo.file.is_none() && !wanted.iter().any(|f| f.name.ends_with(".safetensors")) {
            let choice: Vec<&File> = self.files.iter().filter(|f| f.name.ends_with(".gguf")).collect();
            wanted = match choice.len() {
                0 | 1 => choice.into_iter().cloned().collect(),
                _ => {
                    return Err(Error::ChooseFile {
                        repo: repo.name.clone(),
                        files: choice.into_iter().map(|f| f.name.clone()).collect(),
                    });
                }
            };
        }
        if wanted.is_empty() {
            return Err(Error::NoWeights { repo: repo.name.clone(), file: repo.file.clone() });
        }
        wanted.sort_by_key(|f| f.bytes);
        Ok(wanted)
    }
}

/// Whether a file is part of a Hugging Face model folder: at the root, and of a kind that is read.
fn belongs(name: &str) -> bool {
    let kind = |ends: &[&str]| ends.iter().any(|e| name.ends_with(e));
    // `consolidated` is a second copy of the weights in the vendor's own layout
    !name.contains('/')
        && !name.starts_with("consolidated")
        && kind(&[".safetensors", ".json", ".jinja", ".model", "merges.txt", "vocab.txt"])
}

fn file(repo: &Repo, commit: &str, from: Sibling) -> Result<File> {
    let refuse = |file: &str| Error::UnsafeName { repo: repo.name.clone(), file: file.to_owned() };
    // names such as `.gitattributes` are harmless, but nothing wants them either
    let hidden_or_plain = |step: &str| is_plain(step) || step.strip_prefix('.').is_some_and(is_plain);
    if !from.rfilename.split('/').all(hidden_or_plain) {
        return Err(refuse(&from.rfilename));
    }
    let sha256 = from.lfs.map(|l| l.sha256.to_ascii_lowercase());
    let sum = match (&sha256, from.blob_id) {
        (Some(sum), _) => sum.clone(),
        (None, Some(sum)) => sum,
        // a hub that names no sums: what a commit holds under a name never changes, so that is a name too
        (None, None) => hex(&Sha256::digest(format!("{commit}/{}", from.rfilename))),
    };
    if !is_plain(&sum) || sha256.as_ref().is_some_and(|s| s.len() != 64) {
        return Err(refuse(&sum));
    }
    Ok(File { name: from.rfilename, bytes: from.size, sum, sha256 })
}

/// Bytes as lower-case hexadecimal.
pub(super) fn hex(bytes: &[u8]) -> String {
    bytes.iter().map(|b| format!("{b:02x}")).collect()
}
