import { Elysia } from "elysia";
import type { Http } from "../../../kernel/http/http.ts";
import { documented } from "../../../kernel/http/reference/docs.ts";
import { Attachment } from "../../../protocol/chat-records.ts";
import type { ChatCaller } from "../access.ts";
import type { ChatService } from "../chat.ts";
import * as schema from "./attachment.schema.ts";
import type { AttachmentAccess } from "./attachment.service.ts";
import type { Attachments } from "./attachments.ts";

type StoredResponse = {
  id: string;
  upload: Pick<schema.RequestedUpload, "uploadUrl" | "uploadMethod" | "uploadHeaders" | "expiresAt">;
};

export const attachmentRoutes = (
  { guards, idempotency }: Http,
  { chat, attachments }: { chat: ChatService; attachments: Attachments },
) => {
  const findFor = (caller: ChatCaller, attachmentId: string): AttachmentAccess => {
    const attachment = attachments.find(attachmentId);
    const { conversationId } = attachment;
    return { attachment, access: chat.access.byId(caller, conversationId, "SVC_ATTACHMENT_NOT_FOUND") };
  };

  return new Elysia({ tags: ["chat"] })
    .use(guards.chat)
    .post(
      "/v1/chat/conversations/:room/attachments",
      (context) => {
        const { caller, params, body, info } = context;
        chat.budgets.attach(caller);
        return idempotency.create(
          context,
          (unit) =>
            attachments.requestUpload(
              unit,
              chat.access.conversation(caller, params.room, "chat:send"),
              body,
              info.publicUrl,
            ),
          // The stored response holds neither name nor metadata, because they must be removed with the message.
          {
            of: ({ id, uploadUrl, uploadMethod, uploadHeaders, expiresAt }): StoredResponse => ({
              id,
              upload: { uploadUrl, uploadMethod, uploadHeaders, expiresAt },
            }),
            follow: (stored) => {
              const { id, upload } = stored as StoredResponse;
              return { ...attachments.present(findFor(caller, id).attachment), ...upload };
            },
          },
        );
      },
      {
        ...documented("Request an address to upload an attachment to", [
          "SVC_CONVERSATION_NOT_FOUND",
          "SVC_PERMISSION_DENIED",
          "SVC_MUTED",
          "SVC_STORAGE_FULL",
          "SVC_CONVERSATION_ARCHIVED",
          "SVC_ATTACHMENT_TOO_LARGE",
          "SVC_RATE_LIMITED",
          "SVC_IDEMPOTENCY_KEY_REUSED",
        ]),
        body: schema.RequestUpload,
        response: { 201: schema.RequestedUpload },
      },
    )
    .get(
      "/v1/chat/attachments/:attachmentId",
      ({ caller, params }) => attachments.present(findFor(caller, params.attachmentId).attachment),
      { ...documented("One attachment", ["SVC_ATTACHMENT_NOT_FOUND"]), response: { 200: Attachment } },
    )
    .post(
      "/v1/chat/attachments/:attachmentId/complete",
      ({ caller, params }) => attachments.complete(findFor(caller, params.attachmentId)),
      {
        ...documented("Confirm the upload, so that the attachment can be sent", [
          "SVC_ATTACHMENT_NOT_FOUND",
          "SVC_ATTACHMENT_NOT_READY",
          "SVC_CONVERSATION_ARCHIVED",
          "SVC_STORAGE_UNAVAILABLE",
        ]),
        response: { 200: Attachment },
      },
    )
    .get(
      "/v1/chat/attachments/:attachmentId/download-url",
      ({ caller, params, info }) => attachments.signDownload(findFor(caller, params.attachmentId), info.publicUrl),
      {
        ...documented("A short-lived address to download the attachment from", [
          "SVC_ATTACHMENT_NOT_FOUND",
          "SVC_ATTACHMENT_NOT_READY",
        ]),
        response: { 200: schema.DownloadUrl },
      },
    );
};
