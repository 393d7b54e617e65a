/** The names of the API's routes in `stoa/server`. */
/** Names for routes whose generated name would be unclear. */
const NAMES: Record<string, [group: string, name: string]> = {
  "GET /v1/project": ["projects", "current"],
  "GET /v1/recordings/{recordingId}/files/{fileId}/download-url": ["recordings", "downloadUrl"],
  "DELETE /v1/rooms/{id}": ["rooms", "close"],
  "DELETE /v1/rooms/{id}/participants/{identity}": ["rooms", "removeParticipant"],
  "PATCH /v1/rooms/{id}/participants/{identity}": ["rooms", "updateParticipant"],
  "POST /v1/rooms/{id}/participants/{identity}/tracks/{trackId}/mute": ["rooms", "muteTrack"],
  "POST /v1/rooms/{id}/data": ["rooms", "sendData"],
  "POST /v1/rooms/{id}/rtc-tokens": ["rtcTokens", "mint"],
  "DELETE /v1/rooms/{id}/rtc-tokens/{tokenId}": ["rtcTokens", "revoke"],
  "POST /v1/chat/tokens": ["chatTokens", "mint"],
  "DELETE /v1/chat/tokens/{tokenId}": ["chatTokens", "revoke"],
  "GET /v1/chat/unread": ["conversations", "unread"],
  "GET /v1/chat/conversations/{room}/messages": ["messages", "history"],
  "POST /v1/chat/conversations/{room}/messages": ["messages", "send"],
  "GET /v1/chat/conversations/{room}/search": ["messages", "search"],
  "PATCH /v1/chat/messages/{messageId}": ["messages", "edit"],
  "POST /v1/chat/messages/{messageId}/reactions": ["messages", "react"],
  "DELETE /v1/chat/messages/{messageId}/reactions/{emoji}": ["messages", "unreact"],
  "POST /v1/chat/messages/{messageId}/read": ["messages", "markRead"],
  "DELETE /v1/chat/messages/{messageId}/pin": ["messages", "unpin"],
  "POST /v1/chat/conversations/{room}/members": ["conversations", "addMember"],
  "PATCH /v1/chat/conversations/{room}/members/{userId}": ["conversations", "updateMember"],
  "DELETE /v1/chat/conversations/{room}/members/{userId}": ["conversations", "removeMember"],
  "POST /v1/chat/conversations/{room}/attachments": ["attachments", "create"],
  "POST /v1/chat/messages/{messageId}/reports": ["messages", "report"],
  "PUT /v1/chat/blocks/{blockedUserId}": ["blocks", "add"],
  "DELETE /v1/chat/blocks/{blockedUserId}": ["blocks", "remove"],
  "GET /v1/chat/word-list": ["wordList", "get"],
  "PUT /v1/chat/word-list": ["wordList", "replace"],
  "GET /v1/chat/push/key": ["push", "key"],
  "GET /v1/chat/push/subscriptions": ["push", "subscriptions"],
  "POST /v1/chat/push/subscriptions": ["push", "subscribe"],
  "DELETE /v1/chat/push/subscriptions/{subscriptionId}": ["push", "unsubscribe"],
  "GET /v1/chat/conversations/{room}/notifications": ["push", "getNotifications"],
  "PUT /v1/chat/conversations/{room}/notifications": ["push", "setNotifications"],
  "POST /v1/chat/conversations/{room}/rings": ["rings", "start"],
  "POST /v1/live-streams/{streamId}/hosts": ["liveStreams", "addHost"],
  "DELETE /v1/live-streams/{streamId}/hosts/{identity}": ["liveStreams", "removeHost"],
  "POST /v1/live-streams/{streamId}/viewer-tokens": ["liveStreams", "mintViewerToken"],
  "DELETE /v1/live-streams/{streamId}/viewers/{identity}": ["liveStreams", "removeViewer"],
  "POST /v1/live-streams/{streamId}/leave": ["liveStreams", "viewerLeft"],
  "DELETE /v1/people/{userId}": ["people", "erase"],
  "POST /v1/people/{userId}/exports": ["people", "export"],
  "GET /v1/people/{userId}/exports/{exportId}": ["people", "getExport"],
  "POST /v1/connections/{connectionId}/dump": ["connections", "dump"],
  "GET /v1/connections/{connectionId}/dumps/{dumpId}": ["connections", "getDump"],
  "GET /v1/webhooks/{webhookId}/deliveries/{deliveryId}": ["webhooks", "getDelivery"],
  "POST /v1/webhooks/{webhookId}/deliveries/{deliveryId}/redeliver": ["webhooks", "redeliver"],
  "GET /v1/metrics": ["observability", "metrics"],
  "GET /v1/diagnostics": ["observability", "diagnostics"],
  "POST /v1/recordings/{recordingId}/composition": ["recordings", "compose"],
  "DELETE /v1/recordings/{recordingId}/composition": ["recordings", "discardComposition"],
  "POST /v1/recordings/{recordingId}/view-tokens": ["recordings", "mintViewToken"],
  "POST /v1/rooms/{roomId}/recordings": ["recordings", "start"],
  "POST /v1/rooms/{id}/recordings": ["recordings", "start"],
};

const VERBS: Record<string, string> = { POST: "create", GET: "get", PATCH: "update", PUT: "put", DELETE: "delete" };

/**
 * The first fixed part of the path is the group. A second one names the method (`POST /v1/live-streams/{id}/start`), with
 * a verb in front of it if it is neither GET nor POST (`deletePin`). Without a second part the verb is the name
 * (`rooms.create`).
 */
export function methodOf(method: string, path: string): [group: string, name: string] {
  const named = NAMES[`${method} ${path}`];
  if (named) return named;
  const parts = path.replace(/^\/v1\/(chat\/)?/, "").split("/");
  const [group = "", ...rest] = parts;
  const fixed = rest.filter((part) => !part.startsWith("{"));
  const inside = parts.at(-1)?.startsWith("{") ?? false;
  if (fixed.length === 0) return [camel(group), method === "GET" && !inside ? "list" : (VERBS[method] ?? "call")];
  const plainVerb = (method === "GET" && !inside) || (method === "POST" && !inside);
  const name = camel(fixed.join("-"));
  return [camel(group), plainVerb ? name : `${VERBS[method]}${name[0]?.toUpperCase()}${name.slice(1)}`];
}

function camel(text: string): string {
  return text.replace(/-(\w)/g, (_, letter: string) => letter.toUpperCase());
}
