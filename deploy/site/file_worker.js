// The search of the site runs in a Worker, which browsers refuse to pages of file://. There a hidden frame takes its place:
// it loads the same script, and messages pass between the two windows, which are of one origin.
if (location.protocol === "file:") {
  window.Worker = class extends EventTarget {
    constructor(url) {
      super();
      this.frame = document.createElement("iframe");
      this.frame.hidden = true;
      this.frame.title = "search";
      this.ready = new Promise((resolve) => this.frame.addEventListener("load", resolve, { once: true }));
      const script = `<script src="${new URL(url, document.baseURI)}"><\/script>`;
      this.frame.srcdoc = `<script>window.postMessage = (data) => frameElement.answered(data)<\/script>${script}`;
      this.frame.answered = (data) => {
        const message = new MessageEvent("message", { data });
        this.dispatchEvent(message);
        this.onmessage?.(message);
      };
      document.documentElement.append(this.frame);
    }

    async postMessage(data) {
      await this.ready;
      const { contentWindow } = this.frame;
      contentWindow.dispatchEvent(new contentWindow.MessageEvent("message", { data }));
    }

    terminate() {
      this.frame.remove();
    }
  };
}
