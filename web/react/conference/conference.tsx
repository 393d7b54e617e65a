/** @jsxImportSource react */
import { type ReactNode, useCallback, useEffect, useRef, useState } from "react";
import { mayPublish } from "../../../src/protocol/may-publish.ts";
import type { RoomOptions, StoaError, TokenProvider } from "../../sdk/index.ts";
import { useChat, useConversation } from "../chat-hooks.ts";
import { StoaRoom, useRoom } from "../context.tsx";
import { useRecording, useRoomState, useSafetyNumber } from "../room-hooks.ts";
import { CaptionLines } from "./captions.tsx";
import { ChatPanel } from "./chat-panel.tsx";
import { DevicesPanel } from "./devices-panel.tsx";
import { Icon } from "./icon.tsx";
import { Lobby } from "./lobby.tsx";
import { useProcessing } from "./processing.ts";
import { useSignals } from "./signals.ts";
import { displayName, Stage, type View } from "./stage.tsx";
import { type Panel, Toolbar } from "./toolbar.tsx";
import { useStyle } from "./use-style.ts";

export type ConferenceProps = {
  /** The endpoint and the token come from your backend: `rtc.endpoint` and `rtc.token` of `mintJoin`. */
  endpoint: string;
  token: string;
  /** The `chat` credentials of `mintJoin`; without them the conference has no chat. `tokenProvider` returns new tokens. */
  chat?: { endpoint: string; token: string; tokenProvider?: TokenProvider };
  /**
   * Whether to open the microphone and the camera on joining, if the token allows it; true by default. The audio `"music"` is
   * stereo, without voice processing.
   */
  audio?: boolean | "music";
  video?: boolean;
  /** Shown over the video, besides the captions that participants send in a room with `captions`. */
  captions?: ReactNode;
  options?: RoomOptions;
  /** The user has left. */
  onLeave?: () => void;
  /** Something failed, or the call is over for the user: `error.reason` is then `room-closed`, `removed` or `replaced`. */
  onError?: (error: StoaError) => void;
  onJoined?: () => void;
};

const NOTICE_MS = 6_000;
/** The user cannot rejoin after these with the same token. */
const OVER: readonly string[] = ["room-closed", "removed"];

/** A complete call UI: participants, screen sharing, chat, devices, raised hands and reactions. It fills its container. */
export function Conference({ endpoint, token, options, onError, ...rest }: ConferenceProps) {
  const [left, setLeft] = useState(false);
  const [attempt, setAttempt] = useState(0);
  const [notice, setNotice] = useState<string | null>(null);
  const element = useRef<HTMLElement>(null);
  useStyle(element);
  useEffect(() => {
    if (notice === null) return;
    const timer = setTimeout(() => setNotice(null), NOTICE_MS);
    return () => clearTimeout(timer);
  }, [notice]);
  const failed = useCallback(
    (error: StoaError) => {
      setNotice(error.message);
      onError?.(error);
    },
    [onError],
  );
  const leave = () => {
    setLeft(true);
    rest.onLeave?.();
  };
  const rejoin = () => {
    setLeft(false);
    setNotice(null);
    setAttempt(attempt + 1);
  };
  return (
    <section ref={element} className="stoa-conference" part="conference" aria-label="Call">
      {left ? (
        <StatusMessage text="You have left the call." action="Rejoin" onAction={rejoin} />
      ) : (
        <StoaRoom key={attempt} endpoint={endpoint} token={token} options={options} onError={failed}>
          <Call
            {...rest}
            encrypted={options?.encryption !== undefined}
            notice={notice}
            notify={setNotice}
            leave={leave}
            rejoin={rejoin}
          />
        </StoaRoom>
      )}
    </section>
  );
}

type CallProps = Omit<ConferenceProps, "endpoint" | "token" | "options" | "onLeave" | "onError"> & {
  notice: string | null;
  encrypted: boolean;
  notify: (notice: string | null) => void;
  leave: () => void;
  rejoin: () => void;
};

function Call(props: CallProps) {
  const { chat, audio = true, video = true, captions, onJoined, encrypted, notice, notify, leave, rejoin } = props;
  const { room, state, isInLobby, error } = useRoom();
  const [view, setView] = useState<View>("grid");
  const [panel, setPanel] = useState<Panel>(null);
  const [audioBlocked, setAudioBlocked] = useState(false);
  const signals = useSignals();
  const recording = useRecording();
  const hasCaptions = useRoomState()?.captions === true;
  const [showsCaptions, setShowsCaptions] = useState(true);
  const safetyNumber = useSafetyNumber();
  const chatStatus = useChat(chat?.endpoint, chat?.token, { tokenProvider: chat?.tokenProvider });
  const conversation = useConversation(chatStatus, chat ? room?.id : undefined);
  const processing = useProcessing(room, notify);
  useDevicesOnJoin(room, audio, video, notify);
  useEffect(() => {
    return room?.on("audioBlocked", () => setAudioBlocked(true));
  }, [room]);
  useEffect(() => {
    if (room) onJoined?.();
  }, [room, onJoined]);

  if (error && !room) {
    const action = OVER.includes(error.reason) ? undefined : "Try again";
    return <StatusMessage text={error.message} action={action} onAction={rejoin} alert />;
  }
  if (isInLobby) {
    return <StatusMessage text="You are in the lobby. A host will let you in." action="Leave" onAction={leave} />;
  }
  if (!room) return <StatusMessage text="Joining…" />;
  return (
    <>
      <div className="stoa-main">
        <Stage view={view} hands={signals.hands} />
        {recording && (
          <p className="stoa-recording" role="status">
            Recording
          </p>
        )}
        {encrypted && (
          <p className="stoa-encrypted" title="Video and audio are end-to-end encrypted.">
            <Icon name="lock" /> Encrypted
            {safetyNumber !== null && (
              <span title="Read this number to the others: it is the same for all if nobody listens in.">
                {" "}
                {safetyNumber}
              </span>
            )}
          </p>
        )}
        <ul className="stoa-reactions" aria-live="polite">
          {signals.reactions.map(({ id, identity, emoji }) => (
            <li key={id}>
              {emoji} {displayName(room, identity)}
            </li>
          ))}
        </ul>
        <div className="stoa-captions">
          {captions && (
            <div aria-live="polite">{typeof captions === "string" ? <span>{captions}</span> : captions}</div>
          )}
          {hasCaptions && showsCaptions && <CaptionLines room={room} />}
        </div>
      </div>
      <Lobby notify={notify} />
      {notice !== null && (
        <p className="stoa-notice" role="status">
          {notice}
        </p>
      )}
      {state === "RECONNECTING" && (
        <p className="stoa-notice" role="status">
          Connection lost. Reconnecting…
        </p>
      )}
      {audioBlocked && (
        <p className="stoa-notice">
          <button
            type="button"
            className="stoa-button"
            data-strong=""
            onClick={() => {
              setAudioBlocked(false);
              void room.startAudio();
            }}
          >
            Turn on sound
          </button>
        </p>
      )}
      {panel === "chat" && (
        <aside className="stoa-side" aria-label="Chat">
          <ChatPanel {...conversation} />
        </aside>
      )}
      {panel === "devices" && (
        <aside className="stoa-side" aria-label="Devices">
          <DevicesPanel processing={processing} notify={notify} />
        </aside>
      )}
      <Toolbar
        {...{ signals, view, setView, panel, setPanel, processing, notify, leave }}
        hasChat={chat !== undefined}
        captions={hasCaptions ? { shown: showsCaptions, show: setShowsCaptions } : null}
        music={audio === "music"}
      />
    </>
  );
}

/** Opens one device after the other, so that the browser asks for each separately, and only those the token allows. */
function useDevicesOnJoin(
  room: ReturnType<typeof useRoom>["room"],
  audio: boolean | "music",
  video: boolean,
  notify: (notice: string) => void,
) {
  useEffect(() => {
    const permissions = room?.localParticipant.permissions;
    if (!room || !permissions) return;
    let isMounted = true;
    const music = audio === "music";
    const open = async () => {
      const wanted = [
        audio && mayPublish(permissions, "audio") ? () => room.localParticipant.enableMicrophone({ music }) : null,
        video && mayPublish(permissions, "video") ? () => room.localParticipant.enableCamera() : null,
      ];
      for (const enable of wanted) {
        if (enable && isMounted) await enable().catch((error: Error) => isMounted && notify(error.message));
      }
    };
    void open();
    return () => {
      isMounted = false;
    };
  }, [room, audio, video, notify]);
}

function StatusMessage({
  text,
  action,
  onAction,
  alert,
}: {
  text: string;
  action?: string;
  onAction?: () => void;
  alert?: boolean;
}) {
  return (
    <div className="stoa-message">
      <p role={alert ? "alert" : "status"}>{text}</p>
      {action && (
        <button type="button" className="stoa-button" data-strong="" onClick={onAction}>
          {action}
        </button>
      )}
    </div>
  );
}
