//! Containers made by hand, byte by byte: the good ones are read, each bad one is refused by name.

use crate::{Array, Error, GgmlType, Gguf, Kind, Place, Value, ValueType};

/// A container under construction. Nothing here is checked; that is the point.
#[derive(Clone)]
struct Made {
    magic: [u8; 4],
    version: u32,
    tensor_count: Option<u64>,
    pair_count: Option<u64>,
    pairs: Vec<Vec<u8>>,
    tensors: Vec<Vec<u8>>,
    alignment: usize,
    data: usize,
}

fn text(s: &[u8]) -> Vec<u8> {
    [&(s.len() as u64).to_le_bytes()[..], s].concat()
}

fn pair(key: &str, kind: u32, value: &[u8]) -> Vec<u8> {
    [&text(key.as_bytes())[..], &kind.to_le_bytes(), value].concat()
}

/// `dims` innermost first, as the file has them.
fn tensor(name: &str, dims: &[u64], kind: u32, offset: u64) -> Vec<u8> {
    let dims_bytes: Vec<u8> = dims.iter().flat_map(|d| d.to_le_bytes()).collect();
    [
        &text(name.as_bytes())[..],
        &(dims.len() as u32).to_le_bytes(),
        &dims_bytes,
        &kind.to_le_bytes(),
        &offset.to_le_bytes(),
    ]
    .concat()
}

fn texts(entries: &[&[u8]]) -> Vec<u8> {
    let mut out = 8u32.to_le_bytes().to_vec();
    out.extend((entries.len() as u64).to_le_bytes());
    entries.iter().for_each(|e| out.extend(text(e)));
    out
}

/// Two tensors, 3 x 32 of Q8_0 and 2 of F32, and a pair of each kind that matters.
fn good() -> Made {
    Made {
        magic: *b"GGUF",
        version: 3,
        tensor_count: None,
        pair_count: None,
        pairs: vec![
            pair("general.architecture", 8, &text(b"gemma2")),
            pair("gemma2.block_count", 4, &26u32.to_le_bytes()),
            pair("gemma2.eps", 6, &1e-6f32.to_le_bytes()),
            pair("tokenizer.ggml.tokens", 9, &texts(&[b"a", b"\xff\xfeb", b"c"])),
            pair(
                "tokenizer.ggml.token_type",
                9,
                &[&5u32.to_le_bytes()[..], &2u64.to_le_bytes(), &1i32.to_le_bytes(), &(-1i32).to_le_bytes()].concat(),
            ),
            pair("tokenizer.ggml.add_bos_token", 7, &[1]),
        ],
        tensors: vec![tensor("w", &[32, 3], 8, 0), tensor("b", &[2], 0, 128)],
        alignment: 32,
        data: 136,
    }
}

impl Made {
    fn bytes(&self) -> Vec<u8> {
        let mut out = self.magic.to_vec();
        out.extend(self.version.to_le_bytes());
        out.extend(self.tensor_count.unwrap_or(self.tensors.len() as u64).to_le_bytes());
        out.extend(self.pair_count.unwrap_or(self.pairs.len() as u64).to_le_bytes());
        out.extend(self.pairs.concat());
        out.extend(self.tensors.concat());
        out.resize(out.len().next_multiple_of(self.alignment), 0);
        out.resize(out.len() + self.data, 7);
        out
    }

    fn read(&self) -> Result<Gguf, Error> {
        let bytes = self.bytes();
        Gguf::read(&bytes[..], bytes.len() as u64)
    }
}

#[track_caller]
fn refused(change: impl FnOnce(&mut Made), message: &str) -> Error {
    let mut made = good();
    change(&mut made);
    let error = made.read().expect_err("should be refused");
    assert!(error.to_string().contains(message), "{error}");
    error
}

#[test]
fn versions_2_and_3_are_read() {
    for version in [2, 3] {
        let gguf = Made { version, ..good() }.read().unwrap();
        assert_eq!(gguf.version, version);
        assert_eq!(gguf.architecture().unwrap(), "gemma2");
        let names: Vec<_> = gguf.tensors().map(|t| t.name.as_str()).collect();
        assert_eq!(names, ["w", "b"]);
        let w = gguf.tensor("w").unwrap();
        assert_eq!((w.dims.as_slice(), w.kind, w.bytes, w.elems()), (&[3, 32][..], GgmlType::Q8_0, 102, 96));
        assert_eq!(gguf.tensor("b").unwrap().offset, w.offset + 128);
        assert!(gguf.tensor("c").is_none());
    }
}

#[test]
fn typed_answers() {
    let gguf = good().read().unwrap();
    assert_eq!(gguf.u64(&gguf.key("block_count").unwrap()).unwrap(), 26);
    assert_eq!(gguf.f32("gemma2.eps").unwrap(), 1e-6);
    assert!(gguf.bool("tokenizer.ggml.add_bos_token").unwrap());
    assert!(gguf.bool_or("absent", true).unwrap());
    assert_eq!(gguf.opt_str("absent").unwrap(), None);
    assert_eq!(gguf.f32_or("absent", 0.5).unwrap(), 0.5);
    assert_eq!(gguf.array("tokenizer.ggml.token_type").unwrap(), &Array::I32(vec![1, -1]));
    assert_eq!(gguf.get("gemma2.block_count"), Some(&Value::U32(26)));
    assert_eq!(gguf.pairs().len(), 6);
}

#[test]
fn wrong_answers_name_the_key() {
    let gguf = good().read().unwrap();
    let said = |e: Error| {
        let said = e.to_string();
        said.strip_suffix("; download the file again, or take another conversion of the model").unwrap().to_owned()
    };
    assert_eq!(said(gguf.f32("gemma2.block_count").unwrap_err()), "key `gemma2.block_count`: expected f32, found u32");
    assert_eq!(said(gguf.u64("llama.x").unwrap_err()), "key `llama.x` is missing; expected an unsigned integer");
    assert_eq!(
        said(gguf.strings("tokenizer.ggml.token_type").unwrap_err()),
        "key `tokenizer.ggml.token_type`: expected array of string, found array of i32"
    );
    assert_eq!(
        said(gguf.u64s("tokenizer.ggml.token_type").unwrap_err()),
        "key `tokenizer.ggml.token_type`: -1 is out of range; expected an unsigned integer"
    );
    let wrong = gguf.bool("tokenizer.ggml.tokens").unwrap_err();
    assert!(matches!(wrong, Error::WrongType { found: Kind::ArrayOf(ValueType::String), .. }));
}

#[test]
fn integers_of_every_width_are_integers() {
    let cases: &[(u32, &[u8])] = &[
        (0, &[7]),
        (1, &[7]),
        (2, &[7, 0]),
        (3, &[7, 0]),
        (4, &[7, 0, 0, 0]),
        (5, &[7, 0, 0, 0]),
        (10, &[7, 0, 0, 0, 0, 0, 0, 0]),
        (11, &[7, 0, 0, 0, 0, 0, 0, 0]),
    ];
    for (kind, bytes) in cases {
        let mut made = good();
        made.pairs.push(pair("n", *kind, bytes));
        assert_eq!(made.read().unwrap().u64("n").unwrap(), 7, "type {kind}");
    }
}

#[test]
fn invalid_utf8_is_kept_and_flagged() {
    let mut made = good();
    made.pairs.push(pair("general.description", 8, &text(b"caf\xe9")));
    let gguf = made.read().unwrap();
    let tokens = gguf.strings("tokenizer.ggml.tokens").unwrap();
    assert_eq!(tokens.iter().collect::<Vec<_>>(), ["a", "\u{fffd}\u{fffd}b", "c"]);
    assert_eq!([0, 1, 2].map(|n| tokens.is_lossy(n)), [false, true, false]);
    assert_eq!(tokens.get(3), None);
    // nobody needs the description, so it is an error only for who asks
    assert!(matches!(gguf.str("general.description"), Err(Error::NotUtf8 { .. })));
}

#[test]
fn alignment_64_moves_the_data() {
    let mut made = Made { alignment: 64, ..good() };
    made.pairs.push(pair("general.alignment", 4, &64u32.to_le_bytes()));
    let gguf = made.read().unwrap();
    assert_eq!(gguf.tensor("w").unwrap().offset % 64, 0);
    let data_start = made.bytes().len() - made.data;
    assert_eq!(gguf.tensor("w").unwrap().offset, data_start as u64);
}

#[test]
fn no_metadata_is_a_container_without_answers() {
    let gguf = Made { pairs: vec![], ..good() }.read().unwrap();
    assert!(gguf.architecture().unwrap_err().to_string().contains("general.architecture"));
}

#[test]
fn a_vocabulary_alone_needs_no_padding() {
    let mut bytes = Made { tensors: vec![], data: 0, ..good() }.bytes();
    while bytes.last() == Some(&0) {
        bytes.pop();
    }
    assert!(Gguf::read(&bytes[..], bytes.len() as u64).is_ok());
}

#[test]
fn other_files_are_refused() {
    refused(|m| m.magic = *b"FUGG", "big-endian");
    refused(|m| m.version = 3u32.swap_bytes(), "big-endian");
    refused(|m| m.version = 1, "version 1; versions 2 and 3");
    refused(|m| m.version = 4, "version 4; versions 2 and 3");
    refused(|m| m.magic = *b"PK\x03\x04", "zip");
    refused(|m| m.magic = *b"vers", "Git LFS pointer");
    let header = b"{\"w\":{\"dtype\":\"F32\",\"shape\":[1],\"data_offsets\":[0,4]}}\0\0\0\0";
    let safetensors = [&(header.len() as u64 - 4).to_le_bytes()[..], header].concat();
    let error = Gguf::read(&safetensors[..], safetensors.len() as u64).unwrap_err();
    assert!(error.to_string().contains("safetensors"), "{error}");
    assert!(matches!(Gguf::read(&b""[..], 0), Err(Error::Truncated { place: Place::Front, .. })));
}

#[test]
fn counts_beyond_the_file_are_refused() {
    refused(|m| m.pair_count = Some(1 << 40), "metadata count: says 1099511627776 entries");
    refused(|m| m.tensor_count = Some(1 << 40), "tensor count: says 1099511627776 entries");
    refused(|m| m.tensor_count = Some(u64::MAX), "tensor count");
    let count = |kind: u32| [&kind.to_le_bytes()[..], &(1u64 << 40).to_le_bytes()].concat();
    refused(|m| m.pairs[3] = pair("tokens", 9, &count(8)), "key `tokens`: says 1099511627776");
    refused(|m| m.pairs[3] = pair("scores", 9, &count(6)), "key `scores`: says 1099511627776");
    refused(|m| m.pairs[0] = pair("long", 8, &(1u64 << 40).to_le_bytes()), "key `long`: needs 1099511627776 bytes");
    refused(|m| m.pairs[0] = pair("long", 8, &u64::MAX.to_le_bytes()), "key `long`: needs");
    refused(|m| m.pairs[0] = (1u64 << 20).to_le_bytes().to_vec(), "name of key 0: 1048576 bytes long");
}

#[test]
fn a_header_may_be_cut_anywhere() {
    let made = Made { data: 0, ..good() };
    let bytes = made.bytes();
    for len in 0..bytes.len() {
        let error = Gguf::read(&bytes[..len], len as u64).unwrap_err();
        assert!(
            matches!(error, Error::Truncated { .. } | Error::Count { .. } | Error::PastEnd { .. }),
            "cut at {len}: {error}"
        );
    }
}

#[test]
fn a_file_shorter_than_it_was_is_an_error_not_a_panic() {
    let bytes = good().bytes();
    assert!(matches!(Gguf::read(&bytes[..40], bytes.len() as u64), Err(Error::Io(_))));
}

#[test]
fn odd_pairs_are_refused() {
    refused(|m| m.pairs[1] = pair("odd", 13, &[0; 8]), "key `odd`: unknown value type 13");
    refused(
        |m| m.pairs[1] = pair("odd", 9, &[&99u32.to_le_bytes()[..], &[0; 8]].concat()),
        "key `odd`: unknown value type 99",
    );
    refused(
        |m| m.pairs[1] = pair("odd", 9, &[&9u32.to_le_bytes()[..], &[0; 8]].concat()),
        "key `odd`: an array of arrays",
    );
    refused(|m| m.pairs.push(m.pairs[1].clone()), "key `gemma2.block_count` appears twice");
    refused(
        |m| m.pairs[1] = [&text(b"\xff")[..], &4u32.to_le_bytes(), &[0; 4]].concat(),
        "name of key 1: not valid UTF-8",
    );
    let alignment = |n: u32| pair("general.alignment", 4, &n.to_le_bytes());
    refused(|m| m.pairs.push(alignment(0)), "power of two up to 1048576, found 0");
    refused(|m| m.pairs.push(alignment(48)), "found 48");
    refused(|m| m.pairs.push(alignment(1 << 31)), "found 2147483648");
    refused(
        |m| m.pairs.push(pair("general.alignment", 8, &text(b"32"))),
        "`general.alignment`: expected u32, found string",
    );
}

#[test]
fn odd_tensors_are_refused() {
    let unknown = refused(|m| m.tensors[0] = tensor("w", &[32, 3], 99, 0), "tensor `w`: unknown type id 99");
    assert!(matches!(unknown, Error::UnknownTensorType { id: 99, .. }));
    refused(|m| m.tensors[0] = tensor("w", &[32, 3], 4, 0), "unknown type id 4");
    refused(|m| m.tensors[1] = tensor("w", &[2], 0, 128), "tensor `w` appears twice");
    refused(|m| m.tensors[1] = tensor("b", &[2], 0, 160), "tensor `b`: 8 bytes");
    refused(|m| m.tensors[1] = tensor("b", &[3], 0, 128), "tensor `b`: 12 bytes");
    refused(|m| m.tensors[1] = tensor("b", &[2], 0, u64::MAX - 31), "tensor `b`: 8 bytes");
    refused(|m| m.tensors[1] = tensor("b", &[2], 0, 96), "tensors `w` and `b` overlap");
    refused(|m| m.tensors[1] = tensor("b", &[2], 0, 0), "overlap");
    refused(
        |m| m.tensors[1] = tensor("b", &[2], 0, 127),
        "tensor `b`: offset 127 is not a multiple of the alignment 32",
    );
    refused(
        |m| m.tensors[0] = tensor("w", &[48, 2], 8, 0),
        "tensor `w`: rows of 48 values are not a whole number of Q8_0 blocks of 32",
    );
    refused(|m| m.tensors[0] = tensor("w", &[1 << 40, 1 << 40], 0, 0), "larger than any file");
    refused(|m| m.tensors[0] = tensor("w", &[1 << 62, 2], 0, 0), "larger than any file");
    refused(|m| m.tensors[0] = tensor("w", &[32, 0], 0, 0), "empty");
    refused(|m| m.tensors[0] = tensor("w", &[1; 5], 0, 0), "tensor `w`: 5 dimensions, at most 4");
}

#[test]
fn every_type_has_sizes_and_a_number() {
    for id in 0..64 {
        if let Some(kind) = GgmlType::from_id(id) {
            assert!(kind.block_elems() > 0 && kind.block_bytes() > 0, "{kind}");
        }
    }
    assert_eq!(GgmlType::from_id(12).map(|k| (k.name(), k.block_elems(), k.block_bytes())), Some(("Q4_K", 256, 144)));
    assert_eq!(GgmlType::from_id(36), None);
}

#[test]
fn open_names_the_file() {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("x.gguf");
    std::fs::write(&path, good().bytes()).unwrap();
    assert_eq!(Gguf::open(&path).unwrap().tensors().len(), 2);
    std::fs::write(&path, b"GGML").unwrap();
    let error = Gguf::open(&path).unwrap_err();
    assert!(error.to_string().contains("x.gguf: not a GGUF file"), "{error}");
    assert!(matches!(error.fault(), Error::Magic { .. }));
    assert!(Gguf::open(&dir.path().join("absent.gguf")).unwrap_err().to_string().contains("absent.gguf"));
}
