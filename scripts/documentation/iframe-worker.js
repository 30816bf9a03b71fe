// Lets the search work where the site is a folder of files: browsers start no workers there. What one would do, a page in
// a hidden frame does. Its name is what the plugin `offline` looks for: without it, it would load one from elsewhere.
"use strict";

if (location.protocol === "file:") {
  window.IFrameWorker = window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      const frame = document.createElement("iframe");
      frame.hidden = true;
      frame.srcdoc = `<script>self.postMessage = data => frameElement.dispatchEvent(new MessageEvent("told", {data}));</script>
        <script src="${new URL(url, document.baseURI)}"></script>`;
      frame.addEventListener("told", ({data}) => this.dispatchEvent(new MessageEvent("message", {data})));
      this.started = new Promise(resolve => frame.addEventListener("load", () => resolve(frame.contentWindow)));
      (document.body ?? document.documentElement).append(frame);
    }
    async postMessage(data) {
      const inside = await this.started;
      inside.dispatchEvent(new inside.MessageEvent("message", {data}));
    }
    terminate() {}
  };
}
