import ipaddr from "ipaddr.js";
import { isMatrixServerName, MAX_REGION_LENGTH, SERVER_NAME_PATTERN } from "../../protocol/ids.ts";

/* The formats of text settings, each with the description that an operator reads when a value is invalid. */

function parsesAsUrl(value: string, protocols: readonly string[]): boolean {
  const url = URL.canParse(value) ? new URL(value) : undefined;
  return url !== undefined && protocols.includes(url.protocol);
}

export const anyText = { expected: "a text", accepts: (value: string) => value.length > 0 };

/** A host name or IP address to bind: no scheme, no port. */
export const host = {
  expected: "a host name or an IP address",
  accepts: (value: string) => ipaddr.isValid(value) || /^[A-Za-z0-9]([A-Za-z0-9.-]{0,251}[A-Za-z0-9])?$/.test(value),
};

/** The API has the same rule for node registration, where both words are parts of a path. */
export const serverName = {
  expected: "1 to 128 characters of A-Z a-z 0-9 . _ -, and neither metrics nor register",
  accepts: (value: string) => new RegExp(SERVER_NAME_PATTERN).test(value),
};

export const region = {
  expected: `1 to ${MAX_REGION_LENGTH} characters of A-Z a-z 0-9 . _ -`,
  accepts: (value: string) => new RegExp(`^[A-Za-z0-9._-]{1,${MAX_REGION_LENGTH}}$`).test(value),
};

export const postgresUrl = {
  expected: "an address such as postgres://user:password@host:5432/database",
  accepts: (value: string): boolean =>
    parsesAsUrl(value, ["postgres:", "postgresql:"]) && new URL(value).hostname !== "",
};

/** Without a path: the server responds at the root, and every URL that it prints or signs is based on this one. */
export const origin = {
  expected: "an http or https address without a path, such as https://rtc.example.com",
  accepts(value: string): boolean {
    if (!parsesAsUrl(value, ["http:", "https:"])) return false;
    const url = new URL(value);
    return url.pathname === "/" && url.search === "" && url.hash === "" && url.username === "" && url.password === "";
  },
};

/** A Matrix server name: a host with an optional port. `*` stands for all. */
export const homeserver = {
  expected: "a Matrix server name such as example.org, or *",
  accepts: (value: string) => value === "*" || isMatrixServerName(value),
};

export const apiKeyId = {
  expected: "the public id of an API key",
  accepts: (value: string) => /^[\x21-\x7e]{1,128}$/.test(value),
};

/** A name that a certificate authority can issue a certificate for. */
export const domain = {
  expected: "a domain name, such as rtc.example.com",
  accepts: (value: string) =>
    value.length <= 253 &&
    /^([a-z0-9]([a-z0-9-]{0,61}[a-z0-9])?\.)+[a-z]([a-z0-9-]{0,61}[a-z0-9])?$/i.test(value) &&
    !ipaddr.isValid(value),
};

export const httpUrl = {
  expected: "an http or https address",
  accepts: (value: string) => parsesAsUrl(value, ["http:", "https:"]),
};

export const smtpUrl = {
  expected: "an smtp:// or smtps:// address",
  accepts: (value: string) => parsesAsUrl(value, ["smtp:", "smtps:"]),
};

export const turnUrl = {
  expected: "turn: or turns: addresses",
  accepts: (value: string) => /^turns?:[^\s,]+$/.test(value),
};

export const addressRange = {
  expected: "IP addresses or CIDR ranges",
  accepts: (value: string) => ipaddr.isValid(value) || ipaddr.isValidCIDR(value),
};

export const email = {
  expected: "an e-mail address",
  accepts: (value: string) => value.length <= 254 && /^[^\s@<>]+@[^\s@<>]+$/.test(value),
};

/** The format of a From header: an e-mail address, or a name followed by the e-mail address in angle brackets. */
export const mailbox = {
  expected: "an e-mail address, or Name <address>",
  accepts: (value: string) => /^([^\r\n<>]+ )?<?[^\s@<>]+@[^\s@<>]+>?$/.test(value),
};

/** The characters that are allowed after "Bearer " in a header: a token with other characters could never match. */
export function bearerToken(min: number, max: number) {
  const shape = new RegExp(`^[\\x21-\\x7e]{${min},${max}}$`);
  return {
    expected: `${min} to ${max} letters, digits or signs of ASCII, without spaces`,
    accepts: (value: string) => shape.test(value),
  };
}

export function lengthBetween(min: number, max: number) {
  return {
    expected: `${min} to ${max} characters`,
    accepts: (value: string) => [...value].length >= min && [...value].length <= max,
  };
}

/** The format of webhook secrets, so that the same verifiers work. */
export const webhookSecret = {
  expected: "whsec_ and the base64 of 24 to 64 bytes",
  accepts: (value: string) => /^whsec_[A-Za-z0-9+/]{32,86}={0,2}$/.test(value),
};
