import { type Signal, useSignal } from "@preact/signals";
import { useEffect } from "preact/hooks";
import { NETWORK_PROFILES } from "../../src/protocol/playground-profiles.ts";
import { type DeviceKind, type LocalTrack, listDevices, onDevicesChanged } from "../sdk/index.ts";
import { backgroundBlur, noiseSuppression } from "../sdk/processors/index.ts";
import { impair, moveStream } from "./credentials.ts";
import { FilePicker } from "./files.tsx";
import { Icon, type IconName } from "./icon.tsx";
import { RingMenu } from "./ring.tsx";
import { attempt, changes, notify, type Session, streamStatus } from "./session.ts";

type ControlsProps = {
  session: Session;
  dev: boolean;
  showChat: Signal<boolean>;
  showStats: Signal<boolean>;
  onLeave: () => Promise<void>;
};

export function Controls({ session, dev, showChat, showStats, onLeave }: ControlsProps) {
  const { room, conversation, credentials } = session;
  const { localParticipant: me } = room;
  const [camera, microphone, screen] = changes.value >= 0 ? SOURCES.map((source) => me.track(source)) : [];
  const talking = microphone !== undefined && !microphone.muted;
  const publishes = me.permissions?.publish === true;
  return (
    <footer class="controls">
      {publishes && (
        <>
          <Toggle
            icon={talking ? "microphone" : "microphoneOff"}
            label="Microphone"
            on={talking}
            onClick={attempt(async () => (microphone && talking ? me.mute(microphone) : me.enableMicrophone()))}
          />
          <Toggle
            icon={camera ? "camera" : "cameraOff"}
            label="Camera"
            on={camera !== undefined}
            onClick={attempt(async () => (camera ? me.disableCamera() : me.enableCamera()))}
          />
          <Toggle
            icon="screen"
            label="Screen"
            on={screen !== undefined}
            onClick={attempt(async () => (screen ? me.stopScreen() : me.shareScreen()))}
          />
        </>
      )}
      {dev && credentials.mode === "host" && <StreamButton streamId={credentials.streamId} />}
      {conversation && (
        <Toggle
          icon="chat"
          label="Chat"
          on={showChat.value}
          badge={showChat.value ? 0 : conversation.readState.unreadCount}
          onClick={() => (showChat.value = !showChat.value)}
        />
      )}
      {conversation && credentials.mode === "call" && <RingMenu session={session} />}
      <Toggle icon="stats" label="Stats" on={showStats.value} onClick={() => (showStats.value = !showStats.value)} />
      {(publishes || dev) && <Settings session={session} dev={dev} />}
      <button type="button" class="button danger control" onClick={attempt(onLeave)}>
        <Icon name="leave" />
        <span class="label">Leave</span>
      </button>
    </footer>
  );
}

const SOURCES = ["camera", "microphone", "screenShare"] as const;

type ToggleProps = { icon: IconName; label: string; on: boolean; badge?: number; onClick: () => void };

function Toggle({ icon, label, on, badge = 0, onClick }: ToggleProps) {
  return (
    <button type="button" class={`button control ${on ? "on" : ""}`} aria-pressed={on} title={label} onClick={onClick}>
      <Icon name={icon} />
      <span class="label">{label}</span>
      {badge > 0 && (
        <span class="badge" aria-hidden="true">
          {badge}
        </span>
      )}
    </button>
  );
}

/** The host starts and ends a stream once. */
function StreamButton({ streamId = "" }: { streamId?: string }) {
  const live = streamStatus.value === "LIVE";
  if (!live && streamStatus.value !== "CREATED") return null;
  return (
    <button
      type="button"
      class={live ? "button" : "button primary"}
      onClick={attempt(() => moveStream(streamId, live ? "end" : "start"))}
    >
      {live ? "End stream" : "Go live"}
    </button>
  );
}

/** Devices, files and, in `stoa dev`, the network. They are in a popover because a phone has space for one row of buttons. */
function Settings({ session, dev }: { session: Session; dev: boolean }) {
  const { localParticipant: me } = session.room;
  return (
    <>
      <button type="button" class="button control" popovertarget="settings" title="Settings">
        <Icon name="settings" />
        <span class="label">Settings</span>
      </button>
      <div id="settings" class="settings" popover="auto">
        <h2>Settings</h2>
        {me.track("microphone") && <DevicePicker session={session} kind="audioinput" label="Microphone" />}
        {me.track("camera") && <DevicePicker session={session} kind="videoinput" label="Camera" />}
        <DevicePicker session={session} kind="audiooutput" label="Speaker" />
        {SWITCHES.map((one) => (
          <ProcessorSwitch key={one.label} session={session} {...one} />
        ))}
        {me.permissions?.publishData && <FilePicker room={session.room} />}
        {dev && <NetworkPicker session={session} />}
      </div>
    </>
  );
}

const SWITCHES = [
  { source: "microphone", label: "Suppress noise", processor: noiseSuppression },
  { source: "camera", label: "Blur the background", processor: backgroundBlur },
] as const;

/** Processes the published track; a track that is published later begins without. */
function ProcessorSwitch({ session, source, label, processor }: { session: Session } & (typeof SWITCHES)[number]) {
  const processed = useSignal<LocalTrack | null>(null);
  const track = changes.value >= 0 ? session.room.localParticipant.track(source) : undefined;
  if (!track) return null;
  const change = async (on: boolean) => {
    const onDisabled = () => {
      processed.value = null;
      notify("This computer is too slow for that.");
    };
    processed.value = on ? track : null;
    try {
      await track.setProcessor(on ? processor({ onDisabled }) : null);
    } catch (error) {
      processed.value = null;
      throw error;
    }
  };
  return (
    <label class="check">
      <input
        type="checkbox"
        checked={processed.value === track}
        onChange={({ currentTarget: { checked } }) => attempt(() => change(checked))()}
      />
      {label}
    </label>
  );
}

type PickerProps = { session: Session; kind: DeviceKind; label: string };

function DevicePicker({ session: { room }, kind, label }: PickerProps) {
  const devices = useSignal<MediaDeviceInfo[]>([]);
  useEffect(() => {
    const list = async () => {
      // Devices have no labels until the user has granted access, so they cannot be told apart.
      devices.value = (await listDevices(kind)).filter((device) => device.label !== "");
    };
    void list();
    return onDevicesChanged(() => void list());
  }, [kind]);
  const use = (id: string) =>
    kind === "audiooutput" ? room.setAudioOutput(id) : room.localParticipant.switchDevice(kind, id);
  const inUse = room.localParticipant.track(kind === "audioinput" ? "microphone" : "camera");
  if (devices.value.length === 0) return null;
  return (
    <label>
      {label}
      <select
        class="input"
        value={kind === "audiooutput" ? undefined : inUse?.sourceTrack.getSettings().deviceId}
        onChange={({ currentTarget: { value } }) => attempt(() => use(value))()}
      >
        {devices.value.map(({ deviceId, label: name }) => (
          <option key={deviceId} value={deviceId}>
            {name}
          </option>
        ))}
      </select>
    </label>
  );
}

/** Simulates a bad network between this tab and the media server; available only in `stoa dev`. */
function NetworkPicker({ session }: { session: Session }) {
  const { roomId } = session.credentials.rtc;
  if (roomId === undefined) return null;
  const { identity } = session.room.localParticipant;
  return (
    <label>
      Network
      <select
        class="input"
        onChange={({ currentTarget: { value } }) =>
          attempt(() => impair(roomId, identity, value as keyof typeof NETWORK_PROFILES))()
        }
      >
        {Object.entries(NETWORK_PROFILES).map(([profile, text]) => (
          <option key={profile} value={profile}>
            {text}
          </option>
        ))}
      </select>
    </label>
  );
}
