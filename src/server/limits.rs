//! Every limit of the servers, with where its number comes from.

use std::time::Duration;

/// What a server lets its callers do. [`Limits::default`] is for the webhook, [`Limits::admin`] for the admin port.
#[derive(Clone, Debug)]
pub struct Limits {
    /// A TLS handshake: 5 s. It is two round trips and a signature; an API server gives up a connection after 30 s, and
    /// nobody else is meant to come.
    pub handshake: Duration,
    /// The head of a request, from its first byte: 10 s. An API server sends it in one packet; this only ends those who
    /// send it byte by byte. It is no limit on a connection that waits for its next request.
    pub head: Duration,
    /// A connection without a request: 120 s. An API server closes its own after 90 s, and must be the one to do so:
    /// what it sends on a connection that the server closes at that moment is lost, and it doesn't try again.
    pub idle: Duration,
    /// The body of a request and its answer, from the end of its head, where the caller doesn't say `?timeout=` or says
    /// more: 30 s, the longest `timeoutSeconds` of a webhook. After it the caller has given up.
    pub body: Duration,
    /// A request from the end of its head to the last byte of its answer: 60 s, twice that. It ends callers that never
    /// read their answer, and handlers that hang.
    pub call: Duration,
    /// After the last answer on a connection, how long it stays open for the peer to close it first: 2 s. A socket closed
    /// with unread bytes is reset, and a reset takes the answer with it that the peer hasn't read yet.
    pub linger: Duration,
    /// The head of a request: 64 KiB, and never less than 8. An API server's has 300 bytes.
    pub head_bytes: usize,
    /// One body: 7 MiB. A review holds the object twice on an update (new and old), an object has at most 3 MB (what the
    /// API server accepts in one request), and 1 MB is for everything around them: controller-runtime's number.
    pub body_bytes: usize,
    /// The bodies of all requests that are being read or answered: 64 MiB, half of it for one source. That is 4,000
    /// reviews of 16 KiB, or nine of the largest.
    pub bytes: usize,
    /// Requests in a handler: 512, half of it for one source. A decision takes 0.1 ms, so that even on one core the last
    /// of them waits 50 ms, a hundredth of the usual `timeoutSeconds`; what is beyond is told to come again in a second,
    /// which API servers do.
    pub calls: usize,
    /// Connections: 2,048, half of it for one source. An API server opens one for each call that it makes at the same time,
    /// and works on 600 requests at a time unless it was told otherwise. An idle connection that has brought a review of
    /// 16 KiB holds 35 KiB (measured), so all of them 70 MiB.
    pub connections: usize,
    /// While stopping, how long connections are accepted in any case: 15 s. Endpoints and kube-proxy take some seconds to
    /// learn that a pod is going; a caller that they still send here must not find the port closed.
    pub settle: Duration,
    /// How long stopping may take: 95 s. By then an API server has closed every connection that it left idle (90 s).
    pub drain: Duration,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            handshake: Duration::from_secs(5),
            head: Duration::from_secs(10),
            idle: Duration::from_secs(120),
            body: Duration::from_secs(30),
            call: Duration::from_secs(60),
            linger: Duration::from_secs(2),
            head_bytes: 64 << 10,
            body_bytes: 7 << 20,
            bytes: 64 << 20,
            calls: 512,
            connections: 2048,
            settle: Duration::from_secs(15),
            drain: Duration::from_secs(95),
        }
    }
}

impl Limits {
    /// For probes, scrapers and people: few at a time, with next to nothing to send.
    pub fn admin() -> Self {
        Self { body_bytes: 64 << 10, bytes: 1 << 20, calls: 32, connections: 128, ..Self::default() }
    }
    /// For Azure Pipelines, behind an ingress, so that all calls come from a source or two, which get half of it each: a
    /// body of 256 KiB (a call brings an agent's settings and credentials, some KiB), because each is hashed before its
    /// sender is known; all bodies together 32 MiB.
    pub fn azure() -> Self {
        Self { body_bytes: 256 << 10, bytes: 32 << 20, connections: 1024, ..Self::default() }
    }
}
