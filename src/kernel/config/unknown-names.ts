import { nearest } from "../nearest-name.ts";
import { isOAuthName } from "./oauth.ts";
import { isVariableName, VARIABLE_NAMES } from "./variables.ts";

/** Prefixes that hardly any other program uses. */
const OUR_PREFIXES = ["STOA_", "SIGNALING_", "CHAT_", "SFU_", "RATE_LIMIT_", "RTC_TOKEN_", "STORAGE_S3_", "WEBHOOK_"];

/** Variables that only install.sh and the launcher read. */
const FOR_THE_INSTALLER = ["STOA_VERSION", "STOA_BASE_URL", "STOA_INSTALL_DIR"];

/** Variables that clients and `startStoa` read; a server ignores them in its environment. */
const FOR_CLIENTS = ["STOA_URL", "STOA_API_KEY", "STOA_WS", "STOA_BINARY"];

/** Kubernetes sets these for every service: a service named "stoa" or "chat" must not prevent the start. */
const KUBERNETES_SERVICE = /_(SERVICE_HOST|SERVICE_PORT(_\w+)?|PORT|PORT_\d+_(TCP|UDP)(_(PROTO|PORT|ADDR))?)$/;

export function isKnown(name: string): boolean {
  return isVariableName(name) || isOAuthName(name);
}

/** Whether an unknown name in the environment is probably a misspelled setting, and not another program's variable. */
export function looksLikeOurs(name: string): boolean {
  if ([...FOR_THE_INSTALLER, ...FOR_CLIENTS].includes(name) || KUBERNETES_SERVICE.test(name)) return false;
  if (OUR_PREFIXES.some((prefix) => name.startsWith(prefix))) return true;
  // Short names are similar to many words: two edits turn SMTP_URL into HTTP_URL, for example.
  const tolerance = name.length >= 12 ? 2 : name.length >= 8 ? 1 : 0;
  const best = nearest(
    name,
    VARIABLE_NAMES.filter((candidate) => mayBeSimilar(name, candidate, tolerance)),
  );
  return best !== undefined && best.distance <= tolerance;
}

/**
 * Whether the edit distance has to be computed, which would otherwise be done for every variable of the environment at
 * each start. An edit changes at most two neighbouring parts of a name, so a similar name contains at least one of
 * enough parts unchanged, shifted by at most the number of edits.
 */
function mayBeSimilar(name: string, candidate: string, edits: number): boolean {
  if (Math.abs(candidate.length - name.length) > edits) return false;
  const parts = 2 * edits + 1;
  const size = Math.floor(name.length / parts);
  for (let part = 0; part < parts; part++) {
    const [from, to] = [part * size, (part + 1) * size];
    if (candidate.slice(Math.max(0, from - edits), to + edits).includes(name.slice(from, to))) return true;
  }
  return false;
}

/** The error for an unknown name; `names` are the variable names that the text can stand for. */
export function unknownName(names: readonly string[], shown: string, source: string): string {
  const best = names
    .flatMap((name) => nearest(name, VARIABLE_NAMES) ?? [])
    .toSorted((a, b) => a.distance - b.distance)
    .find(({ name, distance }) => distance <= Math.max(2, Math.floor(name.length / 3)));
  return `${shown} (${source}) is not a variable of Stoa.${best === undefined ? "" : ` Did you mean ${best.name}?`}`;
}
