//! A way to the API server that can be cut or blocked.

use std::net::{Ipv4Addr, SocketAddr};

use tokio::{
    io::{AsyncReadExt, AsyncWriteExt},
    net::{
        TcpListener, TcpStream,
        tcp::{OwnedReadHalf, OwnedWriteHalf},
    },
    runtime::Runtime,
    sync::watch,
};

use crate::controlplane::ControlPlane;

#[derive(Clone, Copy, Eq, PartialEq)]
enum State {
    /// Connections stay open, and nothing passes.
    Blocked,
    /// Connections end, and new ones too.
    Cut,
    Open,
}

/// It ends when dropped.
pub(crate) struct Way {
    state: watch::Sender<State>,
    kubeconfig: tempfile::NamedTempFile,
    _runtime: Runtime,
}

impl Way {
    /// An open one.
    pub(crate) fn to(plane: &ControlPlane) -> Self {
        let server: SocketAddr = plane.server().strip_prefix("https://").unwrap().parse().unwrap();
        let runtime = Runtime::new().unwrap();
        let listener = runtime.block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0))).unwrap();
        let address = listener.local_addr().unwrap();
        let (state, states) = watch::channel(State::Open);
        runtime.spawn(async move {
            loop {
                let (client, _) = listener.accept().await.unwrap();
                if *states.borrow() == State::Cut {
                    continue;
                }
                let Ok(server) = TcpStream::connect(server).await else { continue };
                let ((from_client, to_client), (from_server, to_server)) = (client.into_split(), server.into_split());
                tokio::spawn(pump(from_client, to_server, states.clone()));
                tokio::spawn(pump(from_server, to_client, states.clone()));
            }
        });
        let kubeconfig = tempfile::NamedTempFile::new().unwrap();
        let text = std::fs::read_to_string(plane.kubeconfig()).unwrap();
        let through = text.replace(plane.server(), &format!("https://{address}"));
        assert_ne!(text, through, "the kubeconfig names the server");
        std::fs::write(kubeconfig.path(), through).unwrap();
        Self { state, kubeconfig, _runtime: runtime }
    }

    /// Path of a kubeconfig that goes this way.
    pub(crate) fn kubeconfig(&self) -> String {
        self.kubeconfig.path().to_str().unwrap().to_owned()
    }

    pub(crate) fn block(&self) {
        self.state.send_replace(State::Blocked);
    }

    pub(crate) fn cut(&self) {
        self.state.send_replace(State::Cut);
    }

    pub(crate) fn open(&self) {
        self.state.send_replace(State::Open);
    }
}

async fn pump(mut from: OwnedReadHalf, mut to: OwnedWriteHalf, states: watch::Receiver<State>) {
    let (mut cut, mut open) = (states.clone(), states);
    let carry = async {
        let mut bytes = vec![0; 1 << 14];
        while let Ok(count @ 1..) = from.read(&mut bytes).await {
            if open.wait_for(|state| *state == State::Open).await.is_err()
                || to.write_all(&bytes[..count]).await.is_err()
            {
                return;
            }
        }
    };
    tokio::select! {
        () = carry => {}
        _ = cut.wait_for(|state| *state == State::Cut) => {}
    }
}
