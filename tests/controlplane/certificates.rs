//! Certificates for loopback: one authority per control plane, one certificate for all its servers.

use std::path::{Path, PathBuf};

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, DnType, IsCa, KeyPair, KeyUsagePurpose};

#[derive(Debug)]
pub struct Certificates {
    pub authority: PathBuf,
    pub certificate: PathBuf,
    pub key: PathBuf,
    /// Signs the tokens of service accounts, and says who signed them.
    pub service_accounts: PathBuf,
    pub service_accounts_public: PathBuf,
}

/// Writes them below `directory`. Kueue wants its certificates as `tls.crt` and `tls.key` in a folder, so do we.
pub fn write(directory: &Path) -> Certificates {
    let mut authority = CertificateParams::new(Vec::new()).unwrap();
    // With the name that every certificate gets by default, the servers' would look signed by themselves.
    authority.distinguished_name.push(DnType::CommonName, "the tests' authority");
    authority.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    authority.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    let authority = CertifiedIssuer::self_signed(authority, KeyPair::generate().unwrap()).unwrap();
    let key = KeyPair::generate().unwrap();
    let names = vec!["127.0.0.1".to_owned(), "localhost".to_owned()];
    let certificate = CertificateParams::new(names).unwrap().signed_by(&key, &authority).unwrap();

    let service_accounts = KeyPair::generate().unwrap();
    std::fs::create_dir_all(directory).unwrap();
    let written = |name: &str, text: String| {
        let path = directory.join(name);
        std::fs::write(&path, text).unwrap();
        path
    };
    Certificates {
        authority: written("ca.crt", authority.pem()),
        certificate: written("tls.crt", certificate.pem()),
        key: written("tls.key", key.serialize_pem()),
        service_accounts: written("service-accounts.key", service_accounts.serialize_pem()),
        service_accounts_public: written("service-accounts.pub", service_accounts.public_key_pem()),
    }
}
