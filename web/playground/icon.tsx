/** SVG paths in a view box of 24 by 24. */
const PATHS = {
  microphone: "M12 3a3 3 0 0 0-3 3v5a3 3 0 0 0 6 0V6a3 3 0 0 0-3-3ZM5 11a7 7 0 0 0 14 0M12 18v3",
  microphoneOff:
    "M4 4l16 16M9 9v2a3 3 0 0 0 4.5 2.6M15 10V6a3 3 0 0 0-5.6-1.5M5 11a7 7 0 0 0 11 5.7M19 11a7 7 0 0 1-.6 2.8M12 18v3",
  camera: "M3 7h11v10H3zM14 11l6-3.5v9L14 13",
  cameraOff: "M4 4l16 16M10 7h4v4l6-3.5v9M13.5 17H3V7h.5",
  screen: "M3 5h18v11H3zM8 20h8M12 16v4",
  chat: "M4 5h16v11H9l-5 4z",
  stats: "M5 20V11M12 20V4M19 20v-6",
  settings: "M4 7h9M17 7h3M15 5v4M4 17h3M11 17h9M9 15v4M4 12h3M11 12h9M9 10v4",
  leave: "M10 4H5v16h5M14 8l4 4-4 4M18 12H9",
  ring: "M6 17V11a6 6 0 0 1 12 0v6l2 1H4zM10 21h4M12 3v2",
  file: "M7 3h7l4 4v14H7zM14 3v4h4",
};

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg class="icon" viewBox="0 0 24 24" aria-hidden="true">
      <path d={PATHS[name]} />
    </svg>
  );
}
