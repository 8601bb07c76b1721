//! What AWS says when it says no, classified: nobody behind the border looks at a code again.
//!
//! A capacity error is a definite no though EC2 sends it as HTTP 500. Every other 5xx, and whatever was lost on the way,
//! leaves open what was done. A denial names the permission that is missing and where it is granted.

use std::error::Error;

use aws_smithy_runtime_api::client::orchestrator::HttpResponse;
use aws_smithy_runtime_api::client::result::SdkError;
use aws_smithy_types::error::metadata::ProvideErrorMetadata;

use super::actions::Api;
use super::grants::{self, Missing};
use crate::observed::Gap;
use crate::provider::{Class, ProviderError};

/// A call that did not bring what was asked.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct Failure {
    pub api: Api,
    pub class: Class,
    /// EC2's code, such as `InsufficientInstanceCapacity`; empty where there was no answer.
    pub code: String,
    /// What was said, in whole sentences.
    pub said: String,
    /// What of the call was denied, where AWS says it.
    pub missing: Option<Missing>,
}

/// EC2 has none of it, or we may have no more of it: another source may have.
const NO_CAPACITY: &[&str] = &[
    "InsufficientInstanceCapacity",
    "InsufficientCapacity",
    "InsufficientHostCapacity",
    "InsufficientReservedInstanceCapacity",
    "InsufficientCapacityOnHost",
    "InsufficientFreeAddressesInSubnet",
    "ReservationCapacityExceeded",
    "UnfulfillableCapacity",
    "SpotMaxPriceTooLow",
    "MaxSpotInstanceCountExceeded",
    "VcpuLimitExceeded",
    "InstanceLimitExceeded",
    "Unsupported",
];
const THROTTLED: &[&str] = &[
    "RequestLimitExceeded",
    "Throttling",
    "ThrottlingException",
    "ThrottledException",
    "EC2ThrottledException",
    "TooManyRequestsException",
    "RequestThrottled",
    "RequestThrottledException",
    "SlowDown",
    "BandwidthLimitExceeded",
    "PriorRequestNotComplete",
    "ResourceCountExceeded",
];
const DENIED: &[&str] = &[
    "UnauthorizedOperation",
    "AccessDenied",
    "AccessDeniedException",
    "AuthFailure",
    "Blocked",
    "ExpiredToken",
    "ExpiredTokenException",
    "IncompleteSignature",
    "InvalidSignatureException",
    "InvalidClientTokenId",
    "MissingAuthenticationToken",
    "NotAuthorized",
    "OptInRequired",
    "PendingVerification",
    "RequestExpired",
    "SignatureDoesNotMatch",
    "UnrecognizedClientException",
];
/// Nothing is known of what became of the request.
const UNSURE: &[&str] = &[
    "InternalError",
    "InternalFailure",
    "InternalServerError",
    "RequestTimeout",
    "RequestTimeoutException",
    "ServerInternal",
    "ServiceUnavailable",
    "Unavailable",
];

/// What a code means, where it is known by itself, else by the status of the answer.
pub fn class(code: &str, status: Option<u16>) -> Class {
    let is = |codes: &[&str]| codes.contains(&code);
    if is(NO_CAPACITY) {
        Class::NoCapacity
    } else if is(THROTTLED) || status == Some(429) {
        Class::Throttled
    } else if is(DENIED) {
        Class::Denied
    } else if is(UNSURE) {
        Class::Ambiguous
    } else if is_missing(code) {
        Class::NotFound
    } else if code.ends_with(".Duplicate") || code.ends_with(".AlreadyExistsException") || code == "IncorrectState" {
        Class::Conflict
    } else {
        match status {
            Some(status) if (400..500).contains(&status) => Class::Other,
            // 5xx, a redirect, a proxy's page: sent, and nobody knows.
            _ => Class::Ambiguous,
        }
    }
}

fn is_missing(code: &str) -> bool {
    let ends = [".NotFound", ".NotFoundException", ".Unknown", ".VersionNotFound", ".Malformed"];
    let whole = ["ParameterNotFound", "ParameterVersionNotFound", "ResourceNotFoundException"];
    ends.iter().any(|end| code.ends_with(end)) || whole.contains(&code)
}

/// The same token was used for another request: whatever that one made is there.
pub fn is_mismatch(code: &str) -> bool {
    code == "IdempotentParameterMismatch"
}

impl Failure {
    pub fn of<E>(api: Api, error: &SdkError<E, HttpResponse>) -> Self
    where
        E: ProvideErrorMetadata + Error + 'static,
    {
        let text = chain(error);
        match error {
            SdkError::ServiceError(answer) => {
                let (status, meta) = (answer.raw().status().as_u16(), answer.err().meta());
                let code = meta.code().unwrap_or_default();
                let message = meta.message().unwrap_or("the answer says nothing more");
                Self::said(api, code, Some(status), message)
            }
            SdkError::ConstructionFailure(_) | SdkError::DispatchFailure(_) if is_about_credentials(&text) => {
                let help = "log in (`aws sso login`), set AWS_PROFILE, or give the pod a role";
                Self::new(
                    api,
                    Class::Denied,
                    format!("there are no credentials for AWS: {}; {help}", text.trim_end_matches('.')),
                )
            }
            SdkError::ConstructionFailure(_) => Self::new(api, Class::Other, format!("it cannot be asked: {text}")),
            // Nothing was sent: definitely not done, and worth another try.
            SdkError::DispatchFailure(_) if never_left(&text) => {
                Self::new(api, Class::Throttled, format!("AWS cannot be reached: {text}"))
            }
            SdkError::DispatchFailure(_) | SdkError::TimeoutError(_) => {
                Self::new(api, Class::Ambiguous, format!("AWS did not answer: {text}"))
            }
            _ => Self::new(api, Class::Ambiguous, format!("the answer of AWS cannot be read: {text}")),
        }
    }

    /// An answer with a code.
    pub fn said(api: Api, code: &str, status: Option<u16>, message: &str) -> Self {
        let class = class(code, status);
        let mut said = match code {
            "" => format!("HTTP {}: {message}", status.unwrap_or_default()),
            code => format!("{code}: {message}"),
        };
        if let Some(help) = help(code) {
            said = format!("{}. {help}", said.trim_end_matches('.'));
        }
        let missing = Missing::said(message).filter(|_| class == Class::Denied);
        Self { api, class, code: code.into(), said, missing }
    }

    /// Something that we say ourselves.
    pub fn new(api: Api, class: Class, said: impl Into<String>) -> Self {
        Self { api, class, code: String::new(), said: said.into(), missing: None }
    }

    pub fn gap(&self) -> Gap {
        Gap { what: self.api.name().into(), why: self.whole() }
    }

    /// With what to do about it.
    pub fn whole(&self) -> String {
        match self.class {
            Class::Denied if !self.code.is_empty() => format!("{} {}", self.short(), self.permit()),
            _ => self.said.clone(),
        }
    }

    /// Without what only AWS can read.
    fn short(&self) -> String {
        match self.said.split_once(" Encoded authorization failure message:") {
            Some((said, _)) => said.to_string(),
            None => self.said.clone(),
        }
    }

    /// What AWS wrote for itself about a denial.
    pub fn encoded(&self) -> Option<&str> {
        let (_, encoded) = self.said.split_once("Encoded authorization failure message:")?;
        encoded.split_whitespace().next().map(|word| word.trim_end_matches('.'))
    }

    /// The same with what AWS says to whoever may ask why.
    pub fn explained(&self, action: &str, resource: &str) -> Self {
        let said = format!("{} It was `{action}` on {resource}.", self.short());
        let missing = Some(Missing { action: action.into(), resource: resource.into() });
        Self { said, missing, ..self.clone() }
    }

    /// What has to be granted, and where that is written: what was denied where AWS says it, else all that the call needs.
    fn permit(&self) -> String {
        let needs = match &self.missing {
            Some(Missing { action, .. }) => format!("`{action}`"),
            None => {
                let also = self.api.also().iter().map(|also| format!(", `{also}`"));
                format!("`{}`{}", self.api.permission(), also.collect::<String>())
            }
        };
        let by = match grants::of(self.api, self.missing.as_ref()) {
            Some(grant) => format!("statement `{}` of deploy/aws/{}", grant.sid(), grant.file),
            None => "no statement of deploy/aws has it".into(),
        };
        format!("Grant {needs} to whoever runs this: {by}")
    }
}

impl From<Failure> for ProviderError {
    fn from(failure: Failure) -> Self {
        Self::new(failure.class, failure.whole())
    }
}

/// What a person can do about a limit.
fn help(code: &str) -> Option<&'static str> {
    match code {
        "VcpuLimitExceeded" | "InstanceLimitExceeded" | "MaxSpotInstanceCountExceeded" => {
            Some("Ask for a higher quota in Service Quotas, or use a reservation")
        }
        "InsufficientFreeAddressesInSubnet" => Some("Tag another subnet of this zone, or free addresses"),
        "Unsupported" => Some("This zone may not have the type: name other zones in `subnets.zones`"),
        _ => None,
    }
}

fn is_about_credentials(text: &str) -> bool {
    let text = text.to_lowercase();
    text.contains("credential") || text.contains("no providers in chain") || text.contains("identity")
}

/// Refused, no route, no such host, a certificate that nobody knows.
fn never_left(text: &str) -> bool {
    let text = text.to_lowercase();
    let words =
        ["connection refused", "dns error", "invalid peer certificate", "tcp connect", "error trying to connect"];
    words.iter().any(|word| text.contains(word))
}

/// An error with what is below it, each said once.
fn chain(error: &dyn Error) -> String {
    let mut said = error.to_string();
    let mut below = error.source();
    while let Some(error) = below {
        let next = error.to_string();
        if !said.contains(&next) {
            said = format!("{said}: {next}");
        }
        below = error.source();
    }
    said
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_capacity_error_is_definite_though_it_is_http_500() {
        assert_eq!(class("InsufficientInstanceCapacity", Some(500)), Class::NoCapacity);
        assert_eq!(class("InternalError", Some(500)), Class::Ambiguous);
        assert_eq!(class("SomethingNew", Some(503)), Class::Ambiguous);
        assert_eq!(class("", Some(502)), Class::Ambiguous);
        assert_eq!(class("SomethingNew", Some(400)), Class::Other);
    }

    #[test]
    fn codes_mean_what_the_documentation_says() {
        let cases = [
            ("ReservationCapacityExceeded", 400, Class::NoCapacity),
            ("UnfulfillableCapacity", 400, Class::NoCapacity),
            ("VcpuLimitExceeded", 400, Class::NoCapacity),
            ("Unsupported", 400, Class::NoCapacity),
            ("SpotMaxPriceTooLow", 400, Class::NoCapacity),
            ("UnsupportedOperation", 400, Class::Other),
            ("RequestLimitExceeded", 503, Class::Throttled),
            ("EC2ThrottledException", 400, Class::Throttled),
            ("InvalidInstanceID.NotFound", 400, Class::NotFound),
            ("InvalidCapacityReservationId.NotFound", 400, Class::NotFound),
            ("InvalidLaunchTemplateName.NotFoundException", 400, Class::NotFound),
            ("InvalidLaunchTemplateId.VersionNotFound", 400, Class::NotFound),
            ("InvalidPlacementGroup.Unknown", 400, Class::NotFound),
            ("InvalidPlacementGroup.Duplicate", 400, Class::Conflict),
            ("InvalidLaunchTemplateName.AlreadyExistsException", 400, Class::Conflict),
            ("UnauthorizedOperation", 403, Class::Denied),
            ("AuthFailure", 401, Class::Denied),
            ("RequestExpired", 400, Class::Denied),
            ("IdempotentParameterMismatch", 400, Class::Other),
            ("OperationNotPermitted", 400, Class::Other),
            ("Unavailable", 503, Class::Ambiguous),
        ];
        for (code, status, expected) in cases {
            assert_eq!(class(code, Some(status)), expected, "{code}");
        }
    }

    #[test]
    fn a_denial_names_the_permission_and_the_statement_and_not_what_nobody_can_read() {
        let said = "You are not authorized to perform this operation. Encoded authorization failure message: AbC-123";
        let failure = Failure::said(Api::RunInstances, "UnauthorizedOperation", Some(403), said);
        assert_eq!(failure.encoded(), Some("AbC-123"));
        let error = ProviderError::from(failure.explained("iam:PassRole", "arn:aws:iam::1:role/gpu-node"));
        assert_eq!(error.class, Class::Denied);
        assert!(error.message.contains("`iam:PassRole` on arn:aws:iam::1:role/gpu-node"), "{error}");
        let by =
            "Grant `iam:PassRole` to whoever runs this: statement `GiveNodesTheirRole` of deploy/aws/iam-policy.json";
        assert!(error.message.contains(by), "{error}");
        assert!(!error.message.contains("AbC-123"), "{error}");
        let bought = Failure::said(Api::PurchaseCapacityBlock, "UnauthorizedOperation", Some(403), "no");
        assert!(bought.gap().why.contains("iam-policy-purchases.json"));
        // Nobody says what was missing: then all that the call needs is named.
        let unsaid = ProviderError::from(Failure::said(Api::RunInstances, "UnauthorizedOperation", Some(403), "no"));
        assert!(unsaid.message.contains("`ec2:RunInstances`, `ec2:CreateTags`, `iam:PassRole`"), "{unsaid}");
    }

    #[test]
    fn what_never_left_was_not_done_and_what_was_lost_may_have_been() {
        use aws_smithy_runtime_api::client::result::ConnectorError;
        type Lost = SdkError<aws_sdk_ec2::operation::run_instances::RunInstancesError, HttpResponse>;
        let of = |error: Lost| Failure::of(Api::RunInstances, &error).class;
        let io = |text: &str| Lost::dispatch_failure(ConnectorError::io(text.to_string().into()));
        assert_eq!(of(io("tcp connect error: Connection refused (os error 111)")), Class::Throttled);
        assert_eq!(of(io("connection reset by peer")), Class::Ambiguous);
        assert_eq!(of(Lost::timeout_error("30 s")), Class::Ambiguous);
        assert_eq!(of(io("the credential provider was not enabled")), Class::Denied);
        assert_eq!(of(Lost::construction_failure("a field is missing")), Class::Other);
    }

    #[test]
    fn a_quota_says_what_a_person_can_do() {
        let failure = Failure::said(Api::RunInstances, "VcpuLimitExceeded", Some(400), "You have requested more.");
        assert!(failure.said.contains("Service Quotas"), "{}", failure.said);
    }
}
