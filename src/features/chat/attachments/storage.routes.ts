import { Type } from "@sinclair/typebox";
import { Elysia, t } from "elysia";
import type { Http } from "../../../kernel/http/http.ts";
import { documented } from "../../../kernel/http/reference/docs.ts";
import type { Runtime } from "../../../kernel/runtime.ts";
import { downloadResponse } from "../../storage/download.ts";
import type { Attachments } from "./attachments.ts";

const Received = t.Object({ id: t.String(), size: Type.Integer(), sha256: t.String() });

/** The routes of signed URLs. The signature is the credential, and bodies are files of any type. */
export const storageRoutes = ({ guards }: Http, { now }: Runtime, { transfers }: Attachments) => {
  const signed = (request: Request, id: string, origin: string | null) => ({
    id,
    query: new URL(request.url).searchParams,
    origin,
  });
  const download = async (
    request: Request,
    id: string,
    origin: string | null,
    set: Parameters<typeof downloadResponse>[1],
  ) => downloadResponse(request, set, await transfers.open(signed(request, id, origin)), now());

  return new Elysia({ prefix: "/v1/storage", tags: ["chat"] })
    .use(guards.open)
    .put(
      "/:attachmentId",
      ({ request, params, info }) => {
        const length = request.headers.get("content-length");
        return transfers.receive({
          ...signed(request, params.attachmentId, info.foreignOrigin),
          body: request.body,
          contentLength: length === null ? null : Number(length),
        });
      },
      {
        ...documented("Send the bytes of an attachment to its upload address", [
          "SVC_PERMISSION_DENIED",
          "SVC_ORIGIN_NOT_ALLOWED",
          "SVC_ATTACHMENT_NOT_FOUND",
          "SVC_CONFLICT",
          "SVC_ATTACHMENT_TOO_LARGE",
          "SVC_STORAGE_FULL",
          "SVC_STORAGE_UNAVAILABLE",
        ]),
        response: { 200: Received },
      },
    )
    .get(
      "/:attachmentId",
      ({ request, params, info, set }) => download(request, params.attachmentId, info.foreignOrigin, set),
      {
        ...documented(
          "Read an attachment from its download address",
          ["SVC_PERMISSION_DENIED", "SVC_ORIGIN_NOT_ALLOWED", "SVC_ATTACHMENT_NOT_FOUND", "SVC_RANGE_NOT_SATISFIABLE"],
          undefined,
          { 200: "application/octet-stream", 206: "application/octet-stream", 304: null },
        ),
      },
    )
    .head(
      "/:attachmentId",
      ({ request, params, info, set }) => download(request, params.attachmentId, info.foreignOrigin, set),
      {
        detail: { hide: true },
      },
    );
};
