import { X509Certificate } from "node:crypto";
import { NO_TOKEN } from "../../gateways/livekit/refusals.ts";
import { messageOf } from "../../kernel/error-message.ts";
import { certificateDoubt, certificateFiles, readCertificate } from "../../kernel/http/serving/certificate.ts";
import { DAY_MS } from "../../kernel/time/clock.ts";
import { AcmeStore } from "../../network/acme/store.ts";
import { LETS_ENCRYPT } from "../../network/tls/certificates.ts";
import {
  type Check,
  type CheckContext,
  type CheckGroup,
  fail,
  pass,
  TIMEOUT_MS,
  warn,
  withoutServer,
} from "./check.ts";
import { loopbackOf } from "./ports.ts";
import { checkWebsocket } from "./websocket.ts";

const RENEW_DAYS = 14;

export const checkWeb: CheckGroup = async (context) => [
  certificate(context),
  await checkWebsocket(context),
  await checkLivekitClients(context),
];

function certificate(context: CheckContext): Check {
  const { config, now } = context;
  const name = "certificate";
  const files = certificateFiles(config);
  if (files === undefined && config.DOMAIN !== undefined) return acmeCertificate(context, config.DOMAIN.toLowerCase());
  if (files === undefined) return pass(name, "none of its own: TLS is a proxy's, or there is none");
  try {
    const read = readCertificate(files);
    const { validToDate, subject } = new X509Certificate(read.cert);
    const days = Math.floor((validToDate.getTime() - now) / DAY_MS);
    const detail = `${subject.replaceAll("\n", ", ")} is valid for ${days} days`;
    const remedy = "Renew the files of TLS_CERT and TLS_KEY; the server takes them up by itself.";
    const doubt = certificateDoubt(read, config.DOMAIN, now);
    if (doubt !== null) return fail(name, doubt, remedy);
    return days < RENEW_DAYS ? warn(name, detail, remedy) : pass(name, detail);
  } catch (error) {
    return fail(name, messageOf(error), "Set TLS_CERT and TLS_KEY to a chain and its key, both PEM.");
  }
}

/** The certificate that this server gets from an ACME authority, and its last attempt. */
function acmeCertificate({ config, now }: CheckContext, domain: string): Check {
  const name = "certificate";
  const store = new AcmeStore(config.DATA_DIR);
  const kept = store.certificate(domain);
  const { problem, notBefore } = store.attempt(domain, config.ACME_DIRECTORY ?? LETS_ENCRYPT);
  const failure = problem === "" ? "" : `; the last attempt failed: ${problem}`;
  const remedy =
    problem === ""
      ? "Start the server: it asks for one by itself."
      : `It tries again at ${new Date(notBefore).toISOString()}. Correct the cause, and look at its log.`;
  if (kept === null) return fail(name, `none for ${domain} yet${failure}`, remedy);
  const days = Math.floor((new X509Certificate(kept.cert).validToDate.getTime() - now) / DAY_MS);
  const detail = `${domain} has one for ${days} days, renewed by itself${failure}`;
  if (days < 0) return fail(name, `it ran out ${-days} days ago${failure}`, remedy);
  return problem === "" ? pass(name, detail) : warn(name, detail, remedy);
}

/** The LiveKit gateway rejects a client without a token with a known message, which shows that it is reachable. */
async function checkLivekitClients(context: CheckContext): Promise<Check> {
  const { config, running } = context;
  const name = "livekit-clients";
  if (config.LIVEKIT_CLIENTS === "off") return pass(name, "closed by LIVEKIT_CLIENTS=off");
  const base = config.PUBLIC_URL ?? (running ? loopbackOf(running.url) : undefined);
  if (base === undefined) return withoutServer(name, context);
  const url = `${base.replace(/\/$/, "")}/rtc/v1/validate`;
  const rejectUnauthorized = config.PUBLIC_URL !== undefined;
  const options = {
    redirect: "manual",
    signal: AbortSignal.timeout(TIMEOUT_MS),
    tls: { rejectUnauthorized },
  } as const;
  const found = await fetch(url, options).then(
    async (answer) => `${answer.status} ${(await answer.text()).slice(0, 60)}`,
    messageOf,
  );
  if (found.includes(NO_TOKEN)) return pass(name, `${base} lets LiveKit's clients in`);
  return warn(
    name,
    `${url} answers: ${found.split("\n", 1)[0]}`,
    "LiveKit's SDKs need /rtc, /agent and /twirp at the root of the address: let the proxy pass them on, or set LIVEKIT_CLIENTS=off.",
  );
}
