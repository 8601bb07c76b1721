//! Prometheus, asked for what guards of tides measure: one instant query, one number.
//!
//! Whatever is no such number is no answer, and a tide whose guard nobody answers for lends nothing. How old an answer may
//! be is for the tide to say.

use std::str::FromStr;
use std::time::Duration;

use async_trait::async_trait;
use http::Uri;
use jiff::Timestamp;
use rust_decimal::Decimal;
use rust_decimal::prelude::ToPrimitive;
use serde_json::Value;

use super::Meter;
use super::k8s::client::answer;
use crate::observed::Sample;
use crate::units::Ratio;

/// A plan waits no longer than this for one number.
const PATIENCE: Duration = Duration::from_secs(10);

/// Where a Prometheus is, if anybody said.
#[derive(Clone, PartialEq, Eq, Default, Debug)]
pub struct Prometheus(Option<Uri>);

impl Prometheus {
    /// By its address, such as `http://prometheus.monitoring:9090`; a path before `/api/v1` may follow.
    pub fn at(address: &str) -> Result<Self, String> {
        let no = |why: &str| format!("`{address}` is no address of a Prometheus: {why}");
        let uri: Uri = address.trim_end_matches('/').parse().map_err(|error| no(&format!("{error}")))?;
        match uri.scheme_str() {
            Some("http" | "https") if uri.query().is_none() => Ok(Self(Some(uri))),
            Some("http" | "https") => Err(no("it holds a query")),
            _ => Err(no("write http://HOST:PORT or https://HOST")),
        }
    }

    pub const fn is_known(&self) -> bool {
        self.0.is_some()
    }

    async fn asked(&self, query: &str) -> Option<Value> {
        let query = form_urlencoded::Serializer::new(String::new()).append_pair("query", query).finish();
        answer(self.0.clone()?, &format!("/api/v1/query?{query}"), PATIENCE).await
    }
}

#[async_trait(?Send)]
impl Meter for Prometheus {
    async fn sample(&self, query: &str) -> Option<Sample> {
        sample(&self.asked(query).await?)
    }
}

/// The one number of an answer. A query that gives several says nothing: which of them is meant?
fn sample(answer: &Value) -> Option<Sample> {
    let data = &answer["data"];
    let point = match (answer["status"].as_str()?, data["resultType"].as_str()?) {
        ("success", "scalar") => &data["result"],
        ("success", "vector") => match data["result"].as_array()?.as_slice() {
            [one] => &one["value"],
            _ => return None,
        },
        _ => return None,
    };
    let [at, value] = point.as_array()?.as_slice() else { return None };
    let thousandths = (number(&at.to_string())? * Decimal::ONE_THOUSAND).to_i64()?;
    let at = Timestamp::from_millisecond(thousandths).ok()?;
    Some(Sample { value: Ratio(number(value.as_str()?)?), at })
}

/// `0.4`, `1e-05`; not `NaN`, and not `+Inf`.
fn number(text: &str) -> Option<Decimal> {
    Decimal::from_str(text).or_else(|_| Decimal::from_scientific(text)).ok()
}

#[cfg(test)]
mod tests;
