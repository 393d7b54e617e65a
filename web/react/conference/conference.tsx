/** @jsxImportSource react */
import { type ReactNode, useCallback, useEffect, useRef, useState } from "react";
import { mayPublish } from "../../../src/protocol/may-publish.ts";
import type { RoomOptions, StoaError } from "../../sdk/index.ts";
import { useChat, useConversation } from "../chat-hooks.ts";
import { StoaRoom, useRoom } from "../context.tsx";
import { useRecording } from "../room-hooks.ts";
import { ChatPanel } from "./chat-panel.tsx";
import { DevicesPanel } from "./devices-panel.tsx";
import { useSignals } from "./signals.ts";
import { Stage, type View } from "./stage.tsx";
import { type Panel, Toolbar } from "./toolbar.tsx";
import { useStyle } from "./use-style.ts";

export type ConferenceProps = {
  /** `rtc.endpoint` and `rtc.token` of `mintJoin`. */
  endpoint: string;
  token: string;
  /** `chat` of `mintJoin`; without it there is no chat. */
  chat?: { endpoint: string; token: string };
  /** Open the microphone and the camera on joining, as far as the token allows; on by default. */
  audio?: boolean;
  video?: boolean;
  /** Shown over the pictures: what is said, in words. */
  captions?: ReactNode;
  options?: RoomOptions;
  onLeave?: () => void;
  onError?: (error: StoaError) => void;
  onJoined?: () => void;
};

const NOTICE_MS = 6_000;

/** A whole call: people, screens, chat, devices, hands and reactions. It fills the element that it stands in. */
export function Conference({ endpoint, token, options, onError, ...rest }: ConferenceProps) {
  const [left, setLeft] = useState(false);
  const [round, setRound] = useState(0);
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
  const again = () => {
    setLeft(false);
    setNotice(null);
    setRound(round + 1);
  };
  return (
    <section ref={element} className="stoa-conference" part="conference" aria-label="Call">
      {left ? (
        <Told text="You have left the call." action="Join again" act={again} />
      ) : (
        <StoaRoom key={round} endpoint={endpoint} token={token} options={options} onError={failed}>
          <Call {...rest} say={setNotice} leave={leave} again={again} />
        </StoaRoom>
      )}
      {notice !== null && !left && (
        <p className="stoa-notice" role="status">
          {notice}
        </p>
      )}
    </section>
  );
}

type CallProps = Omit<ConferenceProps, "endpoint" | "token" | "options" | "onLeave" | "onError"> & {
  say: (notice: string | null) => void;
  leave: () => void;
  again: () => void;
};

function Call({ chat, audio = true, video = true, captions, onJoined, say, leave, again }: CallProps) {
  const { room, state, error } = useRoom();
  const [view, setView] = useState<View>("grid");
  const [panel, setPanel] = useState<Panel>(null);
  const [blocked, setBlocked] = useState(false);
  const signals = useSignals();
  const recording = useRecording();
  const chatStatus = useChat(chat?.endpoint, chat?.token);
  const conversation = useConversation(chatStatus, chat ? room?.id : undefined);
  useDevicesOnJoin(room, audio, video, say);
  useEffect(() => {
    return room?.on("audioBlocked", () => setBlocked(true));
  }, [room]);
  useEffect(() => {
    if (room) onJoined?.();
  }, [room, onJoined]);

  if (error && !room) return <Told text={error.message} action="Try again" act={again} alert />;
  if (!room) return <Told text="Joining…" />;
  return (
    <>
      <div className="stoa-main">
        <Stage view={view} hands={signals.hands} />
        {recording && (
          <p className="stoa-recording" role="status">
            Recording
          </p>
        )}
        <ul className="stoa-reactions" aria-live="polite">
          {signals.reactions.map(({ id, identity, emoji }) => (
            <li key={id}>
              {emoji} {identity}
            </li>
          ))}
        </ul>
        {captions && (
          <div className="stoa-captions" aria-live="polite">
            {typeof captions === "string" ? <span>{captions}</span> : captions}
          </div>
        )}
      </div>
      {state === "RECONNECTING" && (
        <p className="stoa-notice" role="status">
          The connection was lost. Coming back…
        </p>
      )}
      {blocked && (
        <p className="stoa-notice">
          <button
            type="button"
            className="stoa-button"
            data-strong=""
            onClick={() => {
              setBlocked(false);
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
          <DevicesPanel say={say} />
        </aside>
      )}
      <Toolbar {...{ signals, view, setView, panel, setPanel, say, leave }} hasChat={chat !== undefined} />
    </>
  );
}

/** One after the other, so that the browser asks once for each; what the token does not allow is not asked for. */
function useDevicesOnJoin(
  room: ReturnType<typeof useRoom>["room"],
  audio: boolean,
  video: boolean,
  say: (notice: string) => void,
) {
  useEffect(() => {
    const permissions = room?.localParticipant.permissions;
    if (!room || !permissions) return;
    let current = true;
    const open = async () => {
      const wanted = [
        audio && mayPublish(permissions, "audio") ? () => room.localParticipant.enableMicrophone() : null,
        video && mayPublish(permissions, "video") ? () => room.localParticipant.enableCamera() : null,
      ];
      for (const enable of wanted) {
        if (enable && current) await enable().catch((error: Error) => current && say(error.message));
      }
    };
    void open();
    return () => {
      current = false;
    };
  }, [room, audio, video, say]);
}

function Told({ text, action, act, alert }: { text: string; action?: string; act?: () => void; alert?: boolean }) {
  return (
    <div className="stoa-message">
      <p role={alert ? "alert" : "status"}>{text}</p>
      {action && (
        <button type="button" className="stoa-button" data-strong="" onClick={act}>
          {action}
        </button>
      )}
    </div>
  );
}
