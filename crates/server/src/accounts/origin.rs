//! Origins of pages in browsers.

use axum::http::HeaderValue;
use core::{fmt, str::FromStr};

/// Origin of a page that may call the API, as browsers write it: `https://page.example`, or `http://` on
/// the browser's own machine.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Origin(HeaderValue);

impl FromStr for Origin {
    type Err = &'static str;

    fn from_str(text: &str) -> Result<Self, Self::Err> {
        let advice = "pass an origin as browsers write it, such as https://page.example or \
                      http://127.0.0.1:8000: in lower case, without a path and a default port";
        let (scheme, authority) = text.split_once("://").ok_or(advice)?;
        let (host, port) = match authority.rsplit_once(':') {
            // An IPv6 address in brackets contains colons.
            Some((host, port)) if !port.ends_with(']') => (host, Some(port)),
            _ => (authority, None),
        };
        // An attacker on the network could alter a page that comes over http:// from elsewhere.
        let is_here = matches!(host, "localhost" | "127.0.0.1" | "[::1]");
        let usual = match scheme {
            "https" => 443,
            "http" if is_here => 80,
            _ => return Err(advice),
        };
        // Origins are compared byte by byte. A form that no browser sends would never match.
        let fits = |c: char| c.is_ascii_lowercase() || c.is_ascii_digit() || matches!(c, '.' | '-');
        let named = !host.is_empty() && host.chars().all(fits);
        let port_fits = port.is_none_or(|port| {
            let number = port.parse::<u16>().ok();
            // Browsers leave out the usual port, and write no leading zeros.
            number.is_some_and(|number| number != usual && number > 0 && number.to_string() == port)
        });
        let value = HeaderValue::from_str(text).ok().filter(|_| (is_here || named) && port_fits);
        value.map(Self).ok_or(advice)
    }
}

impl Origin {
    /// Returns whether `asking`, the `Origin` header of a browser, is this origin.
    #[must_use]
    pub fn is(&self, asking: &HeaderValue) -> bool {
        self.0 == asking
    }
}

impl fmt::Display for Origin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.0.to_str().unwrap_or_default())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn origins_are_as_browsers_write_them() {
        for good in [
            "https://page.example",
            "https://page.example:8443",
            "https://10.0.0.7",
            "http://127.0.0.1:8000",
            "http://localhost",
            "http://[::1]:8000",
            "https://[::1]",
        ] {
            assert_eq!(good.parse::<Origin>().map(|origin| origin.to_string()), Ok(good.into()));
        }
        for bad in [
            "*",
            "null",
            "",
            "page.example",
            "https://",
            "https://*.example",
            "https://Page.example",
            "https://page.example/",
            "https://page.example/path",
            "https://user@page.example",
            "https://page.example:443",
            "https://page.example:08443",
            "https://page.example:0",
            "https://page.example:",
            "https://page.example:99999",
            "https://a.example,https://b.example",
            "http://page.example",
            "http://127.0.0.1:80",
            "http://127.0.0.1.example",
            "file://page",
        ] {
            assert!(bad.parse::<Origin>().is_err(), "{bad}");
        }
    }
}
