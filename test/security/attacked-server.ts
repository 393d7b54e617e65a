/** The compiled binary with tenants, as the drivers attack it: over its ports and its command line alone. */
import { mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { SignJWT } from "jose";
import { startStoa, stoa } from "../cli/stoa.ts";
import { buildBinary } from "../e2e/binary/binary.ts";
import { type Api, createApi } from "../harness/api.ts";

/** A project with an API key, which signs LiveKit's tokens too. */
export type AttackedTenant = Api & {
  projectId: string;
  livekit(identity: string, grant: object, claims?: object): Promise<string>;
  /** A LiveKit call of the server API: status and body. */
  twirp(method: string, grant: object, body: object): Promise<[status: number, body: Record<string, unknown>]>;
};

export type AttackedServer = Awaited<ReturnType<typeof attackedServer>>;

const OPERATOR = { email: "operator@example.com", password: "a long password" };

type Options = { flags?: string[]; env?: Record<string, string> /** Before the program. */; wrapper?: string[] };

export async function attackedServer({ flags = [], env = {}, wrapper = [] }: Options = {}) {
  const folder = mkdtempSync(join(tmpdir(), "stoa-attacked-"));
  const dataDir = join(folder, "data");
  const binary = await buildBinary();
  const data = ["--data-dir", dataDir];
  const run = async (args: string[], stdin?: string): Promise<string> => {
    const { code, out, err } = await stoa([...args, ...data], { stdin });
    if (code !== 0) throw new Error(`${args.join(" ")}: ${err}`);
    return out.trim();
  };
  await run(["admin", "create", OPERATOR.email], `${OPERATOR.password}\n`);
  const server = await startStoa(
    [...wrapper, binary, "serve", "--port", "0", "--media-udp-port", "0", ...data, ...flags],
    {
      env: { LOG_LEVEL: "debug", LOG_FORMAT: "json", RATE_LIMIT_RTC_TOKENS: "10000", ...env },
      cwd: folder,
    },
  );
  let log = "";
  void (async () => {
    const decoder = new TextDecoder();
    for await (const chunk of server.child.stderr) log += decoder.decode(chunk, { stream: true });
  })();
  // With TLS the first address that is printed is another one.
  while (!log.includes('"server: listening"')) await Bun.sleep(10);
  const url = /"url":"(http:[^"]+)"/.exec(log)?.[1] ?? server.url;

  return {
    url,
    wsUrl: url.replace(/^http/, "ws"),
    folder,
    dataDir,
    run,
    log: () => log,

    async tenant(project: string, environment = "development"): Promise<AttackedTenant> {
      const made = ["keys", "create", "--project", project, "--create-project", "--environment", environment, "--json"];
      const { key, publicId, projectId } = JSON.parse(await run(made));
      const { apiSecret } = JSON.parse(await run(["keys", "secret", publicId, "--json"]));
      const livekit: AttackedTenant["livekit"] = (identity, video, claims = {}) =>
        new SignJWT({ video, ...claims })
          .setProtectedHeader({ alg: "HS256" })
          .setIssuer(publicId)
          .setSubject(identity)
          .setExpirationTime("10m")
          .sign(Buffer.from(apiSecret));
      return {
        ...createApi(url, key),
        projectId,
        livekit,
        async twirp(method, grant, body) {
          const answer = await fetch(`${url}/twirp/livekit.${method}`, {
            method: "POST",
            headers: { authorization: `Bearer ${await livekit("backend", grant)}`, "content-type": "application/json" },
            body: JSON.stringify(body),
          });
          return [answer.status, (await answer.json()) as Record<string, unknown>];
        },
      };
    },

    /** The operator, signed in to the dashboard. */
    async operator(): Promise<Api> {
      const headers = { "content-type": "application/json", origin: url };
      const signedIn = await fetch(`${url}/v1/auth/login`, {
        method: "POST",
        headers,
        body: JSON.stringify(OPERATOR),
      });
      const { accessToken } = (await signedIn.json()) as { accessToken: string };
      return createApi(url, accessToken);
    },

    async stop(): Promise<void> {
      server.child.kill("SIGKILL");
      await server.child.exited;
      rmSync(folder, { recursive: true, force: true });
    },
  };
}
