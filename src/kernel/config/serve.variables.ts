import { addressRange, host, lengthBetween, origin } from "./checks.ts";
import { choice, integer, list, optional, optionalPath, path, secret, text } from "./variable.ts";

export const serveVariables = {
  HOST: text("127.0.0.1", host, "Address to listen on. 0.0.0.0 or :: listens on every interface."),
  PORT: integer(
    7000,
    { min: 0, max: 65_535 },
    "TCP port of the API, the sockets and the dashboard. 0 takes a free one.",
  ),
  DATA_DIR: path("./stoa-data", "Directory of the database, attachments and generated secrets."),
  PUBLIC_URL: optional(
    origin,
    "Address under which clients reach this server. Unset: https and DOMAIN, or the host of each request.",
  ),
  TRUSTED_PROXIES: list(
    [],
    addressRange,
    "Proxies whose x-forwarded-for, x-forwarded-proto and PROXY headers are believed.",
  ),
  TLS_CERT: optionalPath(
    "Certificate chain (PEM) to serve https directly: at DOMAIN, or without one at HOST and PORT. Needs TLS_KEY.",
  ),
  TLS_KEY: optionalPath("Private key (PEM) of TLS_CERT."),
  STOA_SECRET: secret(lengthBetween(32, 512), "Master secret of all tokens. Unset: generated once into DATA_DIR."),
  STOA_SECRET_PREVIOUS: secret(
    lengthBetween(32, 512),
    "The STOA_SECRET before the current one, while it changes: what it signed stays valid.",
  ),
  UPGRADE_DRAIN_MINUTES: integer(
    60,
    { min: 0, max: 1_440 },
    "How long the process before an upgrade keeps its calls. Those that are left join again then, one room after another.",
  ),
  LOG_LEVEL: choice(
    "info",
    ["trace", "debug", "info", "warn", "error", "fatal", "silent"],
    "Least severe level logged.",
  ),
  LOG_FORMAT: choice("auto", ["auto", "json", "pretty"], "auto is pretty on a terminal and JSON lines otherwise."),
  METRICS_TOKEN: secret(lengthBetween(16, 512), "Bearer token of /metrics. Unset: /metrics answers loopback only."),
};
