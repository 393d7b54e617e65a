import type { Config, VariableName } from "./variables.ts";

const MAX_PORT = 65_535;

/** Problems of settings that would have no effect. */
function relayProblems({ DOMAIN, TLS_CERT, TURN, TURN_UDP_PORT, ACME_CHALLENGE, HTTP_PORT }: Config): string[] {
  const problems: string[] = [];
  if (TURN_UDP_PORT > 0 && TURN === "off") problems.push("TURN_UDP_PORT is set, but TURN is off.");
  else if (TURN_UDP_PORT > 0 && DOMAIN === undefined && TLS_CERT === undefined) {
    problems.push("TURN_UDP_PORT is set, but there is no relay without DOMAIN, or TLS_CERT and TLS_KEY.");
  }
  if (DOMAIN !== undefined && TLS_CERT === undefined && ACME_CHALLENGE === "http-01" && HTTP_PORT === 0) {
    problems.push("ACME_CHALLENGE is http-01, but HTTP_PORT is 0.");
  }
  return problems;
}

export function relationProblems(config: Config): string[] {
  const problems: string[] = [];
  const isSet = (name: VariableName) => {
    const value = config[name];
    return Array.isArray(value) ? value.length > 0 : value !== undefined;
  };
  const requires = (name: VariableName, others: readonly VariableName[]) => {
    for (const other of others) if (isSet(name) && !isSet(other)) problems.push(`${name} is set, but ${other} is not.`);
  };

  requires("TLS_CERT", ["TLS_KEY"]);
  requires("TLS_KEY", ["TLS_CERT"]);
  requires("COMMIT_LOG_URL", ["STOA_SECRET"]);
  requires("CLUSTER_URL", ["COMMIT_LOG_URL"]);
  if (config.ROLE === "edge" && !isSet("COMMIT_LOG_URL")) problems.push("ROLE is edge, but COMMIT_LOG_URL is not set.");
  requires("ADMIN_EMAIL", ["ADMIN_PASSWORD"]);
  requires("ADMIN_PASSWORD", ["ADMIN_EMAIL"]);
  requires("CHAT_FILTER_URL", ["CHAT_FILTER_SECRET"]);
  requires("MATRIX_HOMESERVERS", ["MATRIX_API_KEY"]);
  requires("MATRIX_API_KEY", ["MATRIX_HOMESERVERS"]);
  requires("TURN_URLS", ["TURN_SECRET"]);
  requires("ACME_EAB_KEY_ID", ["ACME_EAB_HMAC"]);
  requires("ACME_EAB_HMAC", ["ACME_EAB_KEY_ID"]);
  requires("ACME_CA", ["ACME_DIRECTORY"]);
  for (const name of ["ACME_DIRECTORY", "ACME_EMAIL", "ACME_EAB_KEY_ID"] as const) requires(name, ["DOMAIN"]);
  problems.push(...relayProblems(config));
  requires("STORAGE_S3_BUCKET", ["STORAGE_S3_ACCESS_KEY_ID", "STORAGE_S3_SECRET_ACCESS_KEY"]);
  requires("STORAGE_S3_ENDPOINT", ["STORAGE_S3_BUCKET"]);
  requires("STORAGE_S3_ACCESS_KEY_ID", ["STORAGE_S3_BUCKET"]);
  requires("STORAGE_S3_SECRET_ACCESS_KEY", ["STORAGE_S3_BUCKET"]);
  const lastMediaPort = config.MEDIA_UDP_PORT + config.MEDIA_WORKERS - 1;
  if (config.MEDIA_UDP_PORT > 0 && lastMediaPort > MAX_PORT) {
    problems.push(
      `MEDIA_UDP_PORT is too high for ${config.MEDIA_WORKERS} MEDIA_WORKERS: the last would take ${lastMediaPort}.`,
    );
  }
  return problems;
}
