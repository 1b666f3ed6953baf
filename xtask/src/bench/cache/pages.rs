//! A cold page cache for a folder, where the system lets itself be asked for it.

use std::path::Path;

use crate::shell::{Done, Failed};

/// Drops a folder's files from the page cache, once they are on the disk: only clean pages can be dropped.
#[cfg(target_os = "linux")]
pub(super) fn forget(folder: &Path) -> Done {
    use rustix::fs::{Advice, fadvise};
    for entry in std::fs::read_dir(folder).map_err(Failed::at(folder))? {
        let path = entry.map_err(Failed::at(folder))?.path();
        let file = std::fs::File::open(&path).map_err(Failed::at(&path))?;
        file.sync_all().map_err(Failed::at(&path))?;
        fadvise(&file, 0, None, Advice::DontNeed).map_err(Failed::at(&path))?;
    }
    Ok(())
}

/// Without such a call nothing measured would be cold.
#[cfg(not(target_os = "linux"))]
pub(super) fn forget(folder: &Path) -> Done {
    Err(Failed::new(format!("{}: the page cache is dropped on Linux only", folder.display())))
}
