import { isOAuthName } from "./oauth.ts";
import { nearest } from "./suggest.ts";
import { isVariableName, VARIABLE_NAMES } from "./variables.ts";

/** Prefixes that hardly anything but Stoa uses: a name that begins like this is meant for us. */
const OUR_PREFIXES = ["STOA_", "SIGNALING_", "CHAT_", "SFU_", "RATE_LIMIT_", "RTC_TOKEN_", "STORAGE_S3_", "WEBHOOK_"];

/** Read by install.sh and the launcher, not by the server. */
const FOR_THE_INSTALLER = ["STOA_VERSION", "STOA_BASE_URL", "STOA_INSTALL_DIR"];

/** Read by clients and by `startStoa`; a server may find them in its environment, and they say nothing to it. */
const FOR_CLIENTS = ["STOA_URL", "STOA_API_KEY", "STOA_WS", "STOA_BINARY"];

/** Kubernetes gives every pod such variables for each service: one called "stoa" or "chat" must not stop the start. */
const KUBERNETES_SERVICE = /_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT|PORT_\d+_(TCP|UDP)(_(PROTO|PORT|ADDR))?)$/;

export function isKnown(name: string): boolean {
  return isVariableName(name) || isOAuthName(name);
}

/** The environment is full of other programs' names: only those that look like ours are held against the operator. */
export function looksLikeOurs(name: string): boolean {
  if ([...FOR_THE_INSTALLER, ...FOR_CLIENTS].includes(name) || KUBERNETES_SERVICE.test(name)) return false;
  if (OUR_PREFIXES.some((prefix) => name.startsWith(prefix))) return true;
  // A short name is near to many words: two edits turn SMTP_URL into HTTP_URL.
  const tolerance = name.length >= 12 ? 2 : name.length >= 8 ? 1 : 0;
  const best = nearest(
    name,
    VARIABLE_NAMES.filter((candidate) => mayBeNear(name, candidate, tolerance)),
  );
  return best !== undefined && best.distance <= tolerance;
}

/**
 * Whether a comparison is worth its while; it would run for every variable of the environment at each start. An edit
 * spoils at most two neighbouring pieces of a name, so of enough pieces one is found intact in a name that is near, and
 * as far from its place as there are edits.
 */
function mayBeNear(name: string, candidate: string, edits: number): boolean {
  if (Math.abs(candidate.length - name.length) > edits) return false;
  const pieces = 2 * edits + 1;
  const size = Math.floor(name.length / pieces);
  for (let piece = 0; piece < pieces; piece++) {
    const [from, to] = [piece * size, (piece + 1) * size];
    if (candidate.slice(Math.max(0, from - edits), to + edits).includes(name.slice(from, to))) return true;
  }
  return false;
}

/** `names`: the ways in which what was written can be read as a variable's name. */
export function unknownName(names: readonly string[], shown: string, source: string): string {
  const best = names
    .flatMap((name) => nearest(name, VARIABLE_NAMES) ?? [])
    .toSorted((a, b) => a.distance - b.distance)
    .find(({ name, distance }) => distance <= Math.max(2, Math.floor(name.length / 3)));
  return `${shown} (${source}) is not a variable of Stoa.${best === undefined ? "" : ` Did you mean ${best.name}?`}`;
}
