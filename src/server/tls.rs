//! TLS for the listener, for a server without a proxy in front that terminates it.

use std::io;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

use rustls::ServerConfig;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};
use tokio::time::timeout;
use tokio_rustls::TlsAcceptor;
use tokio_rustls::server::TlsStream;

use super::settings::TlsSettings;
use super::sockets::Socket;

/// How long a TLS handshake may take: two round trips on a bad line.
const TLS_HANDSHAKE_WAIT_MAX: Duration = Duration::from_secs(10);

/// Why the certificate cannot be used.
#[derive(Debug, thiserror::Error)]
#[allow(missing_docs, reason = "the fields are named as in the message")]
pub enum TlsError {
    /// A file is missing, or is not PEM.
    #[error("cannot read {path}: {source}")]
    File { path: String, source: rustls::pki_types::pem::Error },
    /// The certificate and the key do not match, or are invalid.
    #[error("invalid certificate: {0}")]
    Certificate(#[from] rustls::Error),
}

/// Accepts connections over TLS.
#[derive(Clone)]
pub struct Tls(TlsAcceptor);

impl std::fmt::Debug for Tls {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("Tls").finish_non_exhaustive()
    }
}

impl Tls {
    /// Reads the certificate and its key.
    pub fn load(settings: &TlsSettings) -> Result<Self, TlsError> {
        let bad_file = |path: &Path| {
            let path = path.display().to_string();
            move |source| TlsError::File { path, source }
        };
        let certificates = CertificateDer::pem_file_iter(&settings.cert)
            .and_then(Iterator::collect::<Result<Vec<_>, _>>)
            .map_err(bad_file(&settings.cert))?;
        let key = PrivateKeyDer::from_pem_file(&settings.key).map_err(bad_file(&settings.key))?;
        // Named here, so that another provider in the same process does not come into play.
        let provider = Arc::new(rustls::crypto::ring::default_provider());
        let mut config = ServerConfig::builder_with_provider(provider)
            .with_safe_default_protocol_versions()?
            .with_no_client_auth()
            .with_single_cert(certificates, key)?;
        config.alpn_protocols = vec![b"http/1.1".to_vec()];
        Ok(Self(TlsAcceptor::from(Arc::new(config))))
    }

    /// Runs the TLS handshake with a client.
    pub(crate) async fn accept(&self, socket: Socket) -> io::Result<TlsStream<Socket>> {
        timeout(TLS_HANDSHAKE_WAIT_MAX, self.0.accept(socket)).await?
    }
}
