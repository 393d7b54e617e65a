import { Database } from "bun:sqlite";
import { existsSync } from "node:fs";
import { join } from "node:path";
import { createMailer } from "../../features/accounts/mailer.ts";
import { messageOf } from "../../kernel/error-message.ts";
import { createLog } from "../../kernel/log.ts";
import { type Check, type CheckContext, type CheckGroup, fail, pass, TIMEOUT_MS, warn } from "./check.ts";

const MAX_ENDPOINTS = 10;
const GITHUB = "https://github.com";

export const checkExternalServices: CheckGroup = async (context) => [
  await mail(context),
  ...(await signIn(context)),
  ...(await webhooks(context)),
];

async function mail({ config }: CheckContext): Promise<Check> {
  const name = "mail";
  const mailer = createMailer(config, createLog({ level: "silent", format: "json" }));
  if (!mailer.delivers) return pass(name, "none: links go to the log, and addresses need no verification");
  try {
    const late = Bun.sleep(TIMEOUT_MS).then((): never => {
      throw new Error("the mail server does not answer");
    });
    await Promise.race([mailer.check(), late]);
    return pass(name, "the mail server accepts the sign-in");
  } catch (error) {
    return fail(name, messageOf(error), "Compare SMTP_URL with what the mail server expects.");
  }
}

async function signIn({ config }: CheckContext): Promise<Check[]> {
  return Promise.all(
    Object.entries(config.OAUTH).map(async ([provider, { issuer }]): Promise<Check> => {
      const remedy = `Compare OAUTH_${provider.toUpperCase()}_ISSUER with the provider's documentation.`;
      const url = issuer === undefined ? GITHUB : `${issuer.replace(/\/$/, "")}/.well-known/openid-configuration`;
      try {
        const response = await fetch(url, { signal: AbortSignal.timeout(TIMEOUT_MS) });
        if (!response.ok) return fail("sign-in", `${provider}: ${url} answers ${response.status}`, remedy);
        if (issuer === undefined) return pass("sign-in", `${provider} is reached`);
        const found = (await response.json()) as { issuer?: string };
        if (found.issuer === issuer) return pass("sign-in", `${provider} is found at ${issuer}`);
        return fail("sign-in", `${provider}: ${issuer} calls itself ${found.issuer}`, remedy);
      } catch (error) {
        return fail("sign-in", `${provider}: ${messageOf(error)}`, remedy);
      }
    }),
  );
}

/** Any response shows that the machine is reachable. Paths are omitted, because they may be secret. */
async function webhooks({ config }: CheckContext): Promise<Check[]> {
  const origins = endpointOrigins(join(config.DATA_DIR, "stoa.db"));
  if (origins.length === 0) return [pass("webhooks", "no endpoint is configured")];
  return Promise.all(
    origins.slice(0, MAX_ENDPOINTS).map(async (origin): Promise<Check> => {
      try {
        await fetch(origin, { method: "HEAD", redirect: "manual", signal: AbortSignal.timeout(TIMEOUT_MS) });
        return pass("webhooks", `${origin} is reached`);
      } catch (error) {
        const remedy = "Let this machine reach it, or disable the webhook; deliveries wait meanwhile.";
        return warn("webhooks", `${origin}: ${messageOf(error)}`, remedy);
      }
    }),
  );
}

function endpointOrigins(path: string): string[] {
  if (!existsSync(path)) return [];
  const client = new Database(path, { readonly: true });
  try {
    const rows = client.query<{ url: string }, []>("SELECT url FROM webhook_endpoints").all();
    return [...new Set(rows.map(({ url }) => new URL(url).origin))];
  } catch {
    // The schema belongs to another version, which the check of the database reports.
    return [];
  } finally {
    client.close();
  }
}
