import { Elysia } from "elysia";
import type { Http } from "../../kernel/http/http.ts";
import { documented } from "../../kernel/http/reference/docs.ts";
import type { Runtime } from "../../kernel/runtime.ts";
import { MintRtcToken, RtcToken, refuseUnknownPermissions } from "./rtc-token.schema.ts";
import type { RtcTokenService } from "./rtc-token.service.ts";

export const rtcTokenRoutes = (
  { guards, idempotency, rateLimit }: Http,
  { write }: Runtime,
  { rtcTokens }: { rtcTokens: RtcTokenService },
) =>
  new Elysia({ prefix: "/v1/rooms/:id/rtc-tokens", tags: ["rooms"] })
    .use(guards.apiKey)
    .post(
      "",
      (context) =>
        idempotency.mint(context, async () => {
          const { caller, params, body, info } = context;
          const grant = await write((unit) => rtcTokens.mint(unit, { ...caller, roomId: params.id }, body));
          return rtcTokens.sign(grant, info.publicUrl);
        }),
      {
        ...documented("Mint a token for one participant", [
          "SVC_ROOM_NOT_FOUND",
          "SVC_ROOM_CLOSED",
          "SVC_USAGE_LIMIT_EXCEEDED",
          "SVC_RATE_LIMITED",
          "SVC_IDEMPOTENCY_KEY_REUSED",
          "SVC_IDEMPOTENCY_IN_PROGRESS",
        ]),
        transform: rateLimit("RTC_TOKENS"),
        beforeHandle: refuseUnknownPermissions,
        body: MintRtcToken,
        response: { 201: RtcToken },
      },
    )
    .delete(
      "/:tokenId",
      async ({ caller, params, set }) => {
        await write((unit) => rtcTokens.revoke(unit, { ...caller, roomId: params.id }, params.tokenId));
        set.status = 204;
      },
      {
        ...documented("Revoke a token; whoever joined with it is disconnected and cannot come back", [
          "SVC_ROOM_NOT_FOUND",
          "SVC_RTC_TOKEN_NOT_FOUND",
          "SVC_RATE_LIMITED",
        ]),
        transform: rateLimit("RTC_TOKEN_REVOKE"),
      },
    );
