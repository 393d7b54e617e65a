import { oneTimeTokenService } from "../../../src/features/accounts/one-time-token.service.ts";
import { totpCode, totpStep } from "../../../src/features/accounts/second-factor/totp.ts";
import { createAuthenticator, secretOf } from "../../harness/authenticator.ts";
import type { OidcServer } from "../../harness/oidc.ts";
import { type RtcServer, settled } from "../../harness/rtc.ts";
import { BROWSER, recordedFile as recordedFileOf, type Tenant } from "../../harness/tenant.ts";
import type { Asked } from "./requests.ts";

type Request = Partial<Asked> & { credential?: string };

/**
 * Requests that no schema can describe: they need a password, a cookie, a link from a mail, a signature or another
 * server. Each creates what it needs and returns the valid request.
 */
export function grantedRequests(server: RtcServer, tenant: Tenant, provider: OidcServer) {
  const links = oneTimeTokenService(server.runtime);
  let accounts = 0;

  async function account() {
    const email = `contract-${++accounts}@example.com`;
    const password = "a long enough password";
    const { body, headers } = await server.call("POST", "/v1/auth/register", { body: { email, password } });
    const cookie = (headers.get("set-cookie") ?? "").split(";")[0] ?? "";
    return { email, password, cookie, credential: String(body.accessToken) };
  }

  /** The token of the last link, which is in the log without a mail server. */
  async function linkToken(): Promise<string> {
    await server.services.mailer.drain();
    return /#token=([\w-]{43})/.exec(server.logLines.findLast((line) => line.includes("#token=")) ?? "")?.[1] ?? "";
  }

  async function invitation(email: string): Promise<string> {
    const body = { email, role: "VIEWER" };
    await server.call("POST", `/v1/projects/${tenant.projectId}/members`, { key: tenant.credentials.session, body });
    return linkToken();
  }

  async function upload() {
    const body = { filename: "f", mimeType: "text/plain", size: 5 };
    const path = `/v1/chat/conversations/${tenant.ids.room}/attachments`;
    const answer = await server.call("POST", path, { key: tenant.credentials.apiKey, body });
    return { id: String(answer.body.id), url: new URL(String(answer.body.uploadUrl)) };
  }

  async function watching(kind: "whip" | "whep"): Promise<Request> {
    const { roomId: room } = tenant.ids;
    const body = { participantIdentity: kind, permissions: { publish: true } };
    const minted = await server.call("POST", `/v1/rooms/${room}/rtc-tokens`, { key: tenant.credentials.apiKey, body });
    const token = String(minted.body.token);
    const headers = { "content-type": "application/sdp" };
    const answer = await server.call("POST", `/${kind}/${room}`, { key: token, raw: "v=0", headers });
    const [, , roomId = "", sessionId = ""] = (answer.headers.get("location") ?? "").split("/");
    return { path: [roomId, sessionId], credential: token };
  }

  const trickling = async (kind: "whip" | "whep"): Promise<Request> => ({
    ...(await watching(kind)),
    body: "a=end-of-candidates\r\n",
    headers: [["if-match", "*"]],
  });

  /** A recorded file, and the query of its signed URL. */
  async function recordedFile(): Promise<Request> {
    const { recordingId, fileId = "" } = tenant.ids;
    const key = tenant.credentials.apiKey;
    const answer = await server.call("GET", `/v1/recordings/${recordingId}/files/${fileId}/download-url`, { key });
    const row = server.runtime.db.$client
      .query<{ id: string }, [string]>("SELECT recording_id AS id FROM recording_files WHERE id = ?")
      .get(fileId);
    await Bun.write(`${server.runtime.config.DATA_DIR}/recordings/${row?.id}/${fileId}.webm`, "bytes");
    return { path: [fileId], query: [...new URL(String(answer.body.url)).searchParams] };
  }

  /** A finished recording with a file that cannot be composed. */
  async function composed(credential: string, path: string[]): Promise<Request> {
    const key = tenant.credentials.apiKey;
    const begun = await server.call("POST", "/v1/rooms", { key, body: { name: `composed-${++accounts}` } });
    const { body } = await server.call("POST", `/v1/rooms/${begun.body.id}/recordings`, { key, body: {} });
    await server.call("POST", `/v1/recordings/${body.id}/stop`, { key });
    await recordedFileOf(server, String(body.id), "ada");
    return { path: [...path, String(body.id)], credential, body: { layout: "grid" } };
  }

  /** A live stream with HLS segments, and the token of a viewer. */
  async function broadcast(): Promise<Request> {
    const key = tenant.credentials.apiKey;
    const stream = { title: "show", hostIdentity: "ada" };
    const { id, roomId } = (await server.call("POST", "/v1/live-streams", { key, body: stream })).body;
    const viewer = { key, body: { identity: "grace" } };
    const { rtc } = (await server.call("POST", `/v1/live-streams/${id}/viewer-tokens`, viewer)).body;
    await server.call("POST", `/v1/live-streams/${id}/start`, { key });
    const { body } = await server.call("POST", `/v1/rooms/${roomId}/recordings`, { key, body: {} });
    const recordingId =
      server.runtime.db.$client
        .query<{ id: string }, [string]>("SELECT id FROM recordings WHERE public_id = ?")
        .get(String(body.id))?.id ?? "";
    const { token } = rtc as { token: string };
    const socket = server.connect(token);
    await socket.join();
    await settled();
    for (const kind of ["video", "audio"] as const) {
      const about = { fileId: kind, identity: "ada", trackId: kind, kind, source: "other", codecs: "opus" } as const;
      const piece = { width: null, height: null, head: "", data: "", atMs: 0, durationMs: 500 };
      const part = { ...about, ...piece, independent: true, beginsSegment: true, endsSegment: true };
      server.node.emit({ type: "recordingPart", roomId: String(roomId), recordingId, part });
    }
    return { path: [String(id)], query: [["token", token]] };
  }

  /** A new room that `guest` has joined, or in whose lobby it waits. */
  async function entered(options: object = {}): Promise<string> {
    const key = tenant.credentials.apiKey;
    const { body: room } = await server.call("POST", "/v1/rooms", {
      key,
      body: { name: `entered-${++accounts}`, ...options },
    });
    const { body: minted } = await server.call("POST", `/v1/rooms/${room.id}/rtc-tokens`, {
      key,
      body: { participantIdentity: "guest" },
    });
    await server.connect(String(minted.token)).join();
    return String(room.id);
  }

  async function viewToken(): Promise<string> {
    const path = `/v1/recordings/${tenant.ids.recordingId}/view-tokens`;
    const answer = await server.call("POST", path, { key: tenant.credentials.apiKey, body: {} });
    return String(answer.body.url).split("#token=")[1] ?? "";
  }

  /** An account whose second factor is one-time codes, or a passkey on a device. */
  function secondFactors(): Record<string, () => Promise<Request>> {
    const at = "/v1/auth/factors";
    const post = async (path: string, key: string, body: object = {}) =>
      (await server.call("POST", path, { key, body })).body;
    const device = createAuthenticator("http://localhost");
    const optionsOf = async (path: string, key: string, body: object = {}) =>
      (await post(path, key, body)).options as { challenge: string };
    const codes = async () => {
      const { credential, password } = await account();
      const { secret } = await post(`${at}/totp`, credential, { password });
      const code = () => totpCode(secretOf(String(secret)), totpStep(server.clock.now()));
      return { credential, password, code };
    };
    const confirmed = async () => {
      const made = await codes();
      const { recoveryCodes, session } = await post(`${at}/totp/confirm`, made.credential, { code: made.code() });
      const credential = String((session as { accessToken: string }).accessToken);
      return { ...made, credential, recoveryCode: (recoveryCodes as string[])[0] };
    };
    const passkey = async (authenticator = createAuthenticator("http://localhost")) => {
      const { credential, password } = await account();
      const response = authenticator.create(await optionsOf(`${at}/passkeys/start`, credential, { password }));
      const { passkey: added, session } = await post(`${at}/passkeys`, credential, { name: "laptop", response });
      const renewed = String((session as { accessToken: string }).accessToken);
      return { credential: renewed, password, id: (added as { id: string }).id, authenticator };
    };
    return {
      "GET /v1/auth/second-factor/methods": async () => ({ credential: (await account()).credential }),
      "POST /v1/auth/passkey": async () => {
        const { authenticator } = await passkey();
        const response = authenticator.get(await optionsOf("/v1/auth/passkey/start", ""));
        return { body: { response } };
      },
      "POST /v1/auth/second-factor/code": async () => {
        const { credential, recoveryCode } = await confirmed();
        return { credential, body: { code: recoveryCode } };
      },
      "POST /v1/auth/second-factor/passkey/start": async () => ({ credential: (await passkey()).credential }),
      "POST /v1/auth/second-factor/passkey": async () => {
        const { credential, authenticator } = await passkey();
        const options = await optionsOf("/v1/auth/second-factor/passkey/start", credential);
        return { credential, body: { response: authenticator.get(options) } };
      },
      [`POST ${at}/passkeys/start`]: async () => {
        const { credential, password } = await account();
        return { credential, body: { password } };
      },
      [`POST ${at}/passkeys`]: async () => {
        const { credential, password } = await account();
        const response = device.create(await optionsOf(`${at}/passkeys/start`, credential, { password }));
        return { credential, body: { name: "laptop", response } };
      },
      [`POST ${at}/passkeys/{passkeyId}/remove`]: async () => {
        const { credential, password, id } = await passkey();
        return { path: [id], credential, body: { password } };
      },
      [`POST ${at}/totp`]: async () => {
        const { credential, password } = await account();
        return { credential, body: { password } };
      },
      [`POST ${at}/totp/confirm`]: async () => {
        const { credential, code } = await codes();
        return { credential, body: { code: code() } };
      },
      [`POST ${at}/totp/remove`]: async () => {
        const { credential, password } = await account();
        return { credential, body: { password } };
      },
      [`POST ${at}/recovery-codes`]: async () => {
        const { credential, password } = await confirmed();
        return { credential, body: { password } };
      },
    };
  }

  const requests: Record<string, () => Promise<Request>> = {
    "GET /v1/recording-files/{fileId}": recordedFile,
    "POST /v1/recordings/{recordingId}/composition": () => composed(tenant.credentials.apiKey, []),
    "POST /v1/projects/{projectId}/recordings/{recordingId}/composition": () =>
      composed(tenant.credentials.session, [tenant.projectId]),
    "GET /v1/live-streams/{streamId}/hls/index.m3u8": broadcast,
    "POST /v1/chat/conversations/{room}/rings": async () => ({
      path: [tenant.ids.besideId ?? ""],
      credential: tenant.credentials.apiKey,
      body: {},
    }),
    "POST /v1/chat/push/subscriptions": async () => ({
      credential: tenant.credentials.chatToken,
      body: { endpoint: "https://push.example.com/granted", keys: BROWSER.keys },
    }),
    "GET /v1/replays/{token}": async () => ({ path: [await viewToken()] }),
    "POST /v1/auth/login": async () => {
      const { email, password } = await account();
      return { body: { email, password } };
    },
    "POST /v1/auth/refresh": async () => ({ headers: [["cookie", (await account()).cookie]] }),
    "POST /v1/auth/logout": async () => ({ headers: [["cookie", (await account()).cookie]] }),
    "POST /v1/auth/verify-email": async () => {
      const { email } = await account();
      const user = server.services.users.findByEmail(email);
      const token = await server.runtime.write((unit) => links.issue(unit, "verify-email", user?.id ?? ""));
      return { body: { token } };
    },
    "POST /v1/auth/password-reset/confirm": async () => {
      const { email } = await account();
      await server.call("POST", "/v1/auth/password-reset", { body: { email } });
      return { body: { token: await linkToken(), password: "another long password" } };
    },
    ...secondFactors(),
    "POST /v1/auth/password": async () => {
      const { password, credential } = await account();
      return { credential, body: { currentPassword: password, newPassword: "another long password" } };
    },
    "POST /v1/auth/oauth/{provider}/start": async () => ({ path: ["acme"] }),
    "POST /v1/auth/oauth/{provider}/exchange": async () => {
      const { body } = await server.call("POST", "/v1/auth/oauth/acme/start");
      const answer = await provider.visit(String(body.authorizationUrl), "ada");
      return { path: ["acme"], body: Object.fromEntries(answer) };
    },
    "GET /v1/invitations/{token}": async () => ({ path: [await invitation("invited@example.com")] }),
    "POST /v1/invitations/{token}/accept": async () => {
      const { email, credential } = await account();
      // Invited before the account existed, to another project than the account's own.
      const token = await invitation(`not-${email}`);
      return { path: [token], credential };
    },
    "PUT /v1/storage/{attachmentId}": async () => {
      const { id, url } = await upload();
      return { path: [id], query: [...url.searchParams], raw: "bytes", headers: [["content-type", "text/plain"]] };
    },
    "GET /v1/storage/{attachmentId}": async () => {
      const id = tenant.ids.attachmentId ?? "";
      const key = tenant.credentials.apiKey;
      const { body } = await server.call("GET", `/v1/chat/attachments/${id}/download-url`, { key });
      return { path: [id], query: [...new URL(String(body.url)).searchParams] };
    },
    "GET /v1/exports/{exportId}": async () => {
      const { exportId = "", exportedUserId } = tenant.ids;
      const key = tenant.credentials.apiKey;
      const { body } = await server.call("GET", `/v1/people/${exportedUserId}/exports/${exportId}`, { key });
      return { path: [exportId], query: [...new URL(String(body.url)).searchParams] };
    },
    "POST /v1/rooms/{id}/move": async () => {
      const [here, there] = [await entered(), await entered()];
      return { credential: tenant.credentials.apiKey, path: [here], body: { identity: "guest", to: there } };
    },
    "POST /v1/rooms/{id}/lobby/{identity}/deny": async () => ({
      credential: tenant.credentials.apiKey,
      path: [await entered({ lobby: true }), "guest"],
    }),
    "PATCH /whip/{roomId}/{sessionId}": () => trickling("whip"),
    "PATCH /whep/{roomId}/{sessionId}": () => trickling("whep"),
    "DELETE /whip/{roomId}/{sessionId}": () => watching("whip"),
    "DELETE /whep/{roomId}/{sessionId}": () => watching("whep"),
  };
  return requests;
}
