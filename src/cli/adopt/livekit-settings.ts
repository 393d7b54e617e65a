import type { VariableName } from "../../kernel/config/index.ts";

export type Settings = Partial<Record<VariableName, unknown>>;

/** The result for one setting of LiveKit's server: settings of ours, or a note why there are none. */
type Outcome = { settings?: Settings; note?: string };

type Rule = {
  /** The keys of LiveKit's file, joined with dots; `*` stands for any further ones. */
  path: string;
  /** What the setting becomes, in words for the guide. */
  becomes: string;
  apply: (value: unknown) => Outcome;
};

const as = (path: string, name: VariableName): Rule => ({
  path,
  becomes: `\`${name}\``,
  apply: (value) => ({ settings: { [name]: value } }),
});

const nothing = (path: string, why: string): Rule => ({ path, becomes: why, apply: () => ({ note: why }) });

/** LiveKit's file takes a port, or a range of ports as a text. */
const firstPort = (value: unknown) => Number(String(value).split("-")[0]);

const defaultSeconds =
  (seconds: number) =>
  (value: unknown): Outcome =>
    Number(value) === seconds
      ? { note: "the same here" }
      : { note: `${seconds} seconds here; set it per room, in createRoom or in a token's roomConfig` };

type TurnServer = { host?: string; port?: number; protocol?: string; secret?: string };

function turnServers(value: unknown): Outcome {
  const servers = (Array.isArray(value) ? value : []) as TurnServer[];
  const secrets = new Set(servers.map(({ secret }) => secret));
  const [secret] = secrets;
  if (secrets.size !== 1 || typeof secret !== "string") {
    return { note: "needs one shared secret (static-auth-secret) for all servers: set TURN_URLS and TURN_SECRET" };
  }
  const urls = servers.map(({ host = "", port = 3478, protocol = "udp" }) =>
    protocol === "tls" ? `turns:${host}:${port}?transport=tcp` : `turn:${host}:${port}?transport=${protocol}`,
  );
  return { settings: { TURN_URLS: urls, TURN_SECRET: secret } };
}

const LEVELS: Record<string, string> = { debug: "debug", info: "info", warn: "warn", error: "error" };
const level = (value: unknown): Outcome => ({ settings: { LOG_LEVEL: LEVELS[String(value)] ?? "info" } });

const ONE_PORT = "not needed: all media uses MEDIA_UDP_PORT, with UDP and TCP; open that port in the firewall";

/** All settings of LiveKit's configuration, in the order of its sample. The first rule that matches decides. */
export const RULES: readonly Rule[] = [
  as("port", "PORT"),
  {
    path: "bind_addresses",
    becomes: "`HOST`, the first address",
    apply(value) {
      const [first = "", ...more] = Array.isArray(value) ? value.map(String) : [];
      const note = more.length > 0 ? { note: `only ${first || "0.0.0.0"}: the server listens on one address` } : {};
      return { settings: { HOST: first === "" ? "0.0.0.0" : first }, ...note };
    },
  },
  {
    path: "rtc.udp_port",
    becomes: "`MEDIA_UDP_PORT`, the first of a range; each of `MEDIA_WORKERS` takes one port",
    apply: (value) => ({ settings: { MEDIA_UDP_PORT: firstPort(value) } }),
  },
  nothing("rtc.tcp_port", ONE_PORT),
  nothing("rtc.port_range_start", ONE_PORT),
  nothing("rtc.port_range_end", ONE_PORT),
  {
    path: "rtc.node_ip",
    becomes: "`PUBLIC_IP`",
    apply: (value) => ({ settings: { PUBLIC_IP: [String(value)] } }),
  },
  {
    path: "rtc.use_external_ip",
    becomes: "`PUBLIC_IP`, which you set yourself if the machine does not have its public address",
    apply: (value) =>
      value === true ? { note: "set PUBLIC_IP if the machine does not have its public address itself" } : {},
  },
  {
    path: "rtc.turn_servers",
    becomes: "`TURN_URLS` and `TURN_SECRET`, for servers with a shared secret",
    apply: turnServers,
  },
  nothing("rtc.stun_servers", "not needed: the server knows its addresses from PUBLIC_IP, and clients need none"),
  nothing("rtc.*", "chosen by the server"),
  nothing("redis.*", "not needed: one server needs no Redis, and a cluster uses PostgreSQL (COMMIT_LOG_URL)"),
  { path: "keys.*", becomes: "imported API keys, with the same ids and secrets", apply: () => ({ note: "imported" }) },
  { path: "key_file", becomes: "the same, from that file", apply: () => ({ note: "its keys are imported" }) },
  { path: "logging.level", becomes: "`LOG_LEVEL`", apply: level },
  { path: "log_level", becomes: "`LOG_LEVEL`", apply: level },
  {
    path: "logging.json",
    becomes: "`LOG_FORMAT`",
    apply: (value) => ({ settings: { LOG_FORMAT: value === true ? "json" : "auto" } }),
  },
  nothing("logging.*", "one level for all parts"),
  {
    path: "room.auto_create",
    becomes: "always on: a token creates its room",
    apply: (value) => ({
      note: value === false ? "cannot be switched off: a token creates its room" : "the same here",
    }),
  },
  { path: "room.empty_timeout", becomes: "300 seconds, or as the room says", apply: defaultSeconds(300) },
  { path: "room.departure_timeout", becomes: "20 seconds, or as the room says", apply: defaultSeconds(20) },
  {
    path: "room.max_participants",
    becomes: "`SIGNALING_MAX_PARTICIPANTS_PER_ROOM`; 0 becomes 10,000",
    apply: (value) => ({ settings: { SIGNALING_MAX_PARTICIPANTS_PER_ROOM: Number(value) || 10_000 } }),
  },
  nothing("room.enabled_codecs", "clients publish VP8, H.264, VP9 or AV1, and Opus with RED"),
  nothing("room.enable_remote_unmute", "not possible: only the publisher can unmute a track"),
  nothing("room.*", "set per room, or not served"),
  {
    path: "webhook.urls",
    becomes: "webhook endpoints in LiveKit's format",
    apply: () => ({ note: "registered as endpoints in LiveKit's format" }),
  },
  { path: "webhook.api_key", becomes: "the key that signs them", apply: () => ({ note: "signs the webhooks" }) },
  nothing("webhook.*", "endpoints choose their events in the dashboard"),
  {
    path: "turn.enabled",
    becomes: "`TURN`; the relay needs DOMAIN, or TLS_CERT and TLS_KEY",
    apply: (value) => ({
      settings: { TURN: value === true ? "on" : "off" },
      ...(value === true && { note: "the relay is at DOMAIN on port 443, beside HTTPS" }),
    }),
  },
  {
    path: "turn.domain",
    becomes: "not needed: the relay has the name of the server, DOMAIN",
    apply: () => ({ note: "set DOMAIN to the name of the server; the relay has the same" }),
  },
  nothing("turn.udp_port", "set TURN_UDP_PORT beside DOMAIN"),
  nothing("turn.*", "the server gets its certificate for DOMAIN itself, or takes TLS_CERT and TLS_KEY"),
  as("region", "SFU_REGION"),
  nothing("node_selector.*", "rooms go to the media node of their region with the least load"),
  nothing("prometheus_port", "metrics are at /metrics on PORT"),
  nothing("prometheus.*", "metrics are at /metrics on PORT; others than this machine need METRICS_TOKEN"),
  nothing("limit.*", "limits have settings of their own: see `stoa config doc`"),
  nothing("ingress.*", "WHIP and URLs are served by this server; RTMP is not"),
  nothing("sip.*", "telephony is not served"),
  nothing("audio.*", "chosen by the server"),
  nothing("video.*", "chosen by the server"),
  nothing("signal_relay.*", "not needed without Redis"),
  nothing("psrpc.*", "not needed without Redis"),
  nothing("development", "`stoa dev` is the server for development"),
  nothing("*", "not known here"),
];

export function ruleFor(path: string): Rule {
  const matches = (rule: string) => rule === path || (rule.endsWith("*") && path.startsWith(rule.slice(0, -1)));
  const rule = RULES.find(({ path: rule }) => matches(rule));
  if (!rule) throw new Error("the last rule matches every path");
  return rule;
}

/** The table of the guide. */
export const rulesTable = (): string =>
  [
    "| In LiveKit's file | Here |",
    "| --- | --- |",
    ...RULES.map(({ path, becomes }) => `| \`${path}\` | ${becomes} |`),
  ].join("\n");
