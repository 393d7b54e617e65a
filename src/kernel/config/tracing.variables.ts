import { httpUrl, lengthBetween } from "./checks.ts";
import { integer, optional, secret, text } from "./variable.ts";

export const tracingVariables = {
  OTEL_EXPORTER_OTLP_ENDPOINT: optional(
    httpUrl,
    "OpenTelemetry collector (OTLP over HTTP) for traces and metrics, at /v1/traces and /v1/metrics below it. Unset: none.",
  ),
  OTEL_EXPORTER_OTLP_HEADERS: secret(
    lengthBetween(3, 4_096),
    "Headers for the endpoint, such as its credential: name=value, separated by commas.",
  ),
  OTEL_SERVICE_NAME: text("stoa", lengthBetween(1, 128), "Name of this server in traces and metrics."),
  OTEL_METRIC_EXPORT_INTERVAL: integer(
    60_000,
    { min: 1_000, max: 3_600_000 },
    "Milliseconds between two exports of the metrics.",
  ),
};
