/** @jsxImportSource react */
/** SVG paths in a view box of 24 by 24. */
const PATHS = {
  microphone: "M12 3a3 3 0 0 0-3 3v5a3 3 0 0 0 6 0V6a3 3 0 0 0-3-3ZM5 11a7 7 0 0 0 14 0M12 18v3",
  microphoneOff:
    "M4 4l16 16M9 9v2a3 3 0 0 0 4.5 2.6M15 10V6a3 3 0 0 0-5.6-1.5M5 11a7 7 0 0 0 11 5.7M19 11a7 7 0 0 1-.6 2.8M12 18v3",
  camera: "M3 7h11v10H3zM14 11l6-3.5v9L14 13",
  cameraOff: "M4 4l16 16M10 7h4v4l6-3.5v9M13.5 17H3V7h.5",
  screen: "M3 5h18v11H3zM8 20h8M12 16v4",
  hand: "M8 12V5.5a1.5 1.5 0 0 1 3 0V11V4.5a1.5 1.5 0 0 1 3 0V11V6a1.5 1.5 0 0 1 3 0v8a6 6 0 0 1-6 6h-1a6 6 0 0 1-4.8-2.4L3.5 14a1.4 1.4 0 0 1 2-1.9L8 14z",
  smile: "M12 3a9 9 0 1 0 0 18 9 9 0 0 0 0-18ZM8.5 14a4 4 0 0 0 7 0M9 9.5v.5M15 9.5v.5",
  attach: "M8 12l6-6a3 3 0 0 1 4.5 4.5l-8 8a5 5 0 0 1-7-7l7.5-7.5M8 12l5.5-5.5",
  chat: "M4 5h16v11H9l-5 4z",
  layout: "M4 5h16v9H4zM4 17h4v3H4zM10 17h4v3h-4zM16 17h4v3h-4z",
  captions: "M3 5h18v14H3zM11 10a2.5 2.5 0 1 0 0 4M18 10a2.5 2.5 0 1 0 0 4",
  settings: "M4 7h9M17 7h3M15 5v4M4 17h3M11 17h9M9 15v4M4 12h3M11 12h9M9 10v4",
  lock: "M6 11h12v9H6zM8.5 11V8a3.5 3.5 0 0 1 7 0v3",
  leave: "M10 4H5v16h5M14 8l4 4-4 4M18 12H9",
};

export type IconName = keyof typeof PATHS;

export function Icon({ name }: { name: IconName }) {
  return (
    <svg className="stoa-icon" viewBox="0 0 24 24" aria-hidden="true" focusable="false">
      <path d={PATHS[name]} />
    </svg>
  );
}
