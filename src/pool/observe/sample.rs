use std::io::{Read, Write};

use flate2::{Compression, read::DeflateDecoder, write::DeflateEncoder};
use k8s_openapi::{api::core::v1::PodSpec, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use serde::Serialize;

/// A job pod as it stands at the API server, but for its status: what placeholders may be shaped like.
///
/// Any job pod may become the newest one, as soon as those after it are gone, and reading it again then would want a
/// right over pods that nothing else does. So each is kept, as small as it goes: the job pod of `tests/data/jobs` in 1.8 KB,
/// where its JSON has 5.9 and a typed pod takes some 50 (docs/decisions/0025).
#[derive(Clone, Debug)]
pub struct Sample(Box<[u8]>);

#[derive(Serialize)]
struct Text<'p> {
    metadata: &'p ObjectMeta,
    spec: Option<&'p PodSpec>,
}

impl Sample {
    pub(super) fn new(metadata: &ObjectMeta, spec: Option<&PodSpec>) -> Self {
        let mut packer = DeflateEncoder::new(Vec::new(), Compression::fast());
        // A pod that came as JSON can be written as JSON, and a Vec takes whatever is written into it; what can't be read
        // again is told as a sample that is no pod.
        let packed = serde_json::to_vec(&Text { metadata, spec })
            .ok()
            .and_then(|text| packer.write_all(&text).and_then(|()| packer.finish()).ok());
        Self(packed.unwrap_or_default().into_boxed_slice())
    }

    /// The pod, as JSON.
    ///
    /// # Errors
    /// If it couldn't be kept.
    pub fn text(&self) -> std::io::Result<String> {
        let mut text = String::new();
        DeflateDecoder::new(&*self.0).read_to_string(&mut text)?;
        Ok(text)
    }
}
