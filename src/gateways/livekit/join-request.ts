import { gunzipSync } from "node:zlib";
import {
  type AddTrackRequest,
  ClientInfo,
  ClientInfo_SDK,
  JoinRequest,
  type SessionDescription,
  WrappedJoinRequest,
  WrappedJoinRequest_Compression,
} from "@livekit/protocol";
import { bearerOf } from "../../kernel/http/bearer.ts";
import { sessionIdOf } from "../../protocol/media/livekit-sids.ts";
import { SDP_MAX_BYTES } from "../../protocol/signaling.ts";
import { decodeBinary } from "./message-reader.ts";
import { MAX_TRACKS } from "./published-tracks.ts";
import { HttpRefusal } from "./refusals.ts";

/**
 * With "one", a client uses one peer connection, for which it sends the offer. With "two", it uses a second one, for which the
 * server sends the offer.
 */
export type ConnectionMode = "one" | "two";

export type JoinParameters = {
  mode: ConnectionMode;
  client: ClientInfo;
  autoSubscribe: boolean;
  resumedSessionId: string | null;
  isReconnect: boolean;
  offer: SessionDescription | null;
  tracks: AddTrackRequest[];
};

/** Enough for the largest session description and the fields around it. */
const MAX_JOIN_BYTES = SDP_MAX_BYTES + 16_384;
const MAX_TEXT_LENGTH = 128;
const MAX_CAPABILITIES = 32;

export const tokenOf = (request: Request): string | null =>
  new URL(request.url).searchParams.get("access_token") ?? bearerOf(request);

/** Reads the URL of the socket except its token. Throws `HttpRefusal` when it is malformed. */
export function readJoinParameters(request: Request, mode: ConnectionMode): JoinParameters {
  const { searchParams: query } = new URL(request.url);
  const packed = query.get("join_request");
  if (packed === null) return { ...queryParameters(query), mode };
  const joining = unpack(packed);
  return {
    mode,
    client: bounded(joining.clientInfo ?? new ClientInfo()),
    autoSubscribe: joining.connectionSettings?.autoSubscribe ?? true,
    resumedSessionId: joining.reconnect ? sessionIdOf(joining.participantSid) : null,
    isReconnect: joining.reconnect,
    offer: joining.publisherOffer ?? null,
    tracks: joining.addTrackRequests.slice(0, MAX_TRACKS),
  };
}

/**
 * Limits the lengths of the client's information, because it is kept while the client is connected and its capabilities are sent to
 * the whole room.
 */
function bounded({ sdk, version, protocol, os, browser, clientProtocol, capabilities }: ClientInfo): ClientInfo {
  const [knownVersion, knownOs, knownBrowser] = [version, os, browser].map((text) => text.slice(0, MAX_TEXT_LENGTH));
  return new ClientInfo({
    sdk,
    protocol,
    clientProtocol,
    version: knownVersion,
    os: knownOs,
    browser: knownBrowser,
    capabilities: [...new Set(capabilities)].slice(0, MAX_CAPABILITIES),
  });
}

function unpack(packed: string): JoinRequest {
  const wrapped = packed.length > 2 * MAX_JOIN_BYTES ? null : decodeBinary(WrappedJoinRequest, fromBase64(packed));
  const bytes = wrapped && unzipped(wrapped.message);
  const joining = bytes && decodeBinary(JoinRequest, bytes);
  if (!joining) throw new HttpRefusal(400, "join_request cannot be read");
  return joining.message;
}

const fromBase64 = (text: string) => Buffer.from(text, "base64url");

function unzipped({ compression, joinRequest }: WrappedJoinRequest): Uint8Array | null {
  if (compression !== WrappedJoinRequest_Compression.GZIP) return joinRequest;
  try {
    return gunzipSync(joinRequest, { maxOutputLength: MAX_JOIN_BYTES });
  } catch {
    return null;
  }
}

/** A map, because clients choose the names: an object would also have `constructor`, which is no SDK. */
const SDKS: ReadonlyMap<string, ClientInfo_SDK> = new Map([
  ["js", ClientInfo_SDK.JS],
  ["swift", ClientInfo_SDK.SWIFT],
  ["android", ClientInfo_SDK.ANDROID],
  ["flutter", ClientInfo_SDK.FLUTTER],
  ["go", ClientInfo_SDK.GO],
  ["unity", ClientInfo_SDK.UNITY],
  ["reactnative", ClientInfo_SDK.REACT_NATIVE],
  ["rust", ClientInfo_SDK.RUST],
  ["python", ClientInfo_SDK.PYTHON],
  ["cpp", ClientInfo_SDK.CPP],
  ["node", ClientInfo_SDK.NODE],
]);

function queryParameters(query: URLSearchParams): Omit<JoinParameters, "mode"> {
  const isReconnect = query.get("reconnect") === "1";
  return {
    client: bounded(
      new ClientInfo({
        sdk: SDKS.get(query.get("sdk") ?? "") ?? ClientInfo_SDK.UNKNOWN,
        version: query.get("version") ?? "",
        protocol: integerIn(query, "protocol"),
        os: query.get("os") ?? "",
        browser: query.get("browser") ?? "",
        clientProtocol: integerIn(query, "client_protocol"),
      }),
    ),
    autoSubscribe: query.get("auto_subscribe") !== "0" && query.get("auto_subscribe") !== "false",
    resumedSessionId: isReconnect ? sessionIdOf(query.get("sid") ?? "") : null,
    isReconnect,
    offer: null,
    tracks: [],
  };
}

/** 0 for everything that is no integer of 32 bits: the messages to the room, which contain it, could not be encoded. */
function integerIn(query: URLSearchParams, name: string): number {
  const value = Number(query.get(name) ?? 0);
  return (value | 0) === value ? value : 0;
}

/** The name in records and the dashboard, such as `livekit-js/2.23.0`. */
export function sdkName({ sdk, version }: ClientInfo): string {
  const name = (ClientInfo_SDK[sdk] ?? "unknown").toLowerCase().replaceAll("_", "-");
  return `livekit-${name}${version === "" ? "" : `/${version}`}`.slice(0, 128);
}
