/** The grammar of a bearer token (RFC 6750, section 2.1: `b64token`). */
export const BEARER_TOKEN = String.raw`[A-Za-z0-9\-._~+/]+=*`;
